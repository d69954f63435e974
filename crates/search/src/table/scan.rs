//! The scan of the table as a part of DataFusion's plan: a stream for each thread, all of which
//! take pieces from one heap.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::stream;
use inrush_store::read::{
    Batches, ColumnProjection, FooterCache, PruningFilter, ReadError, SearchPiece,
};
use inrush_store::snapshot::Snapshot;

use super::StatementScans;
use crate::turn::TimeSlice;
use crate::work::{PieceJob, PieceQueue};

/// Conditions, columns, limit and partitions of a scan.
#[derive(Debug, Clone)]
pub(super) struct ScanSpec {
    pub(super) wanted: PruningFilter,
    pub(super) columns: ColumnProjection,
    /// Rows that each stream gives at most.
    pub(super) limit: Option<usize>,
    pub(super) partitions: usize,
}

/// The scan of the table.
#[derive(Debug)]
pub(crate) struct EventsExec {
    snapshot: Snapshot,
    footers: Arc<FooterCache>,
    scans: Arc<StatementScans>,
    scan: ScanSpec,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    /// For each partition how often it was begun, and what the streams of each time share: a plan
    /// may run more than once, and then reads all of it again.
    begun: Mutex<PartitionRuns>,
}

#[derive(Debug, Default)]
struct PartitionRuns {
    times: Vec<usize>,
    works: Vec<Arc<PieceQueue>>,
}

impl EventsExec {
    pub(super) fn new(
        snapshot: Snapshot,
        footers: Arc<FooterCache>,
        scans: Arc<StatementScans>,
        scan: ScanSpec,
        statistics: Statistics,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(scan.columns.schema())),
            Partitioning::UnknownPartitioning(scan.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            snapshot,
            footers,
            scans,
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
            begun: Mutex::new(PartitionRuns {
                times: vec![0; scan.partitions],
                works: Vec::new(),
            }),
            scan,
        }
    }

    /// True if all of its rows are asked for.
    pub(super) fn is_unlimited(&self) -> bool {
        self.scan.limit.is_none()
    }

    /// Work that the streams of this run share.
    pub(super) fn work(&self, partition: usize) -> Result<Arc<PieceQueue>> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(times) = begun.times.get_mut(partition) else {
            return internal_err!("there is no partition {partition}");
        };
        let run = *times;
        *times += 1;
        while begun.works.len() <= run {
            let work = PieceQueue::new(&self.snapshot, self.scan.wanted.clone(), &self.footers);
            self.scans.add(&work);
            begun.works.push(work);
        }
        Ok(Arc::clone(&begun.works[run]))
    }
}

impl DisplayAs for EventsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PruningFilter {
            from_ns,
            to_ns,
            equals,
            needles,
        } = &self.scan.wanted;
        write!(f, "EventsExec:")?;
        if *from_ns != i64::MIN {
            write!(f, " from={from_ns}")?;
        }
        if *to_ns != i64::MAX {
            write!(f, " to={to_ns}")?;
        }
        for (column, values) in equals {
            write!(f, " {}={values:?}", column.name())?;
        }
        if !needles.is_empty() {
            write!(f, " needles={needles:?}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for EventsExec {
    fn name(&self) -> &str {
        "EventsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let state = ScanStream {
            work: self.work(partition)?,
            columns: self.scan.columns.clone(),
            open: None,
            turn: TimeSlice::new(),
            left: self.scan.limit.unwrap_or(usize::MAX),
        };
        let batches = stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok(batch.map(|batch| (batch, state)))
        });
        let schema = Arc::clone(self.scan.columns.schema());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(Arc::clone(&self.statistics)),
            // Which pieces a stream gets is decided while it runs.
            Some(_) => Ok(Arc::new(Statistics::new_unknown(
                self.scan.columns.schema(),
            ))),
        }
    }
}

/// One of the streams of a scan.
struct ScanStream {
    work: Arc<PieceQueue>,
    columns: ColumnProjection,
    open: Option<(PieceJob, Batches)>,
    turn: TimeSlice,
    left: usize,
}

impl ScanStream {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.left > 0 {
            let Some((job, batches)) = &mut self.open else {
                let Some(job) = self.work.next().await.map_err(external)? else {
                    return Ok(None);
                };
                match begin(&self.work, &self.columns, &job.piece).await {
                    Ok(Some(batches)) => self.open = Some((job, batches)),
                    Ok(None) => {}
                    Err(fault) => pass_over(&self.work, &job, fault)?,
                }
                continue;
            };
            // A plan that always has something to do would keep the thread for a hundred batches.
            self.turn.end_if_due().await;
            match batches.next().await {
                Some(Ok(batch)) => {
                    self.work.meter.add_rows(batch.num_rows() as u64);
                    let batch = batch.slice(0, batch.num_rows().min(self.left));
                    self.left -= batch.num_rows();
                    return Ok(Some(batch));
                }
                Some(Err(fault)) => {
                    if let Some((job, _)) = self.open.take() {
                        pass_over(&self.work, &job, fault)?;
                    }
                }
                None => {
                    self.work.finish(job.number);
                    self.open = None;
                }
            }
        }
        Ok(None)
    }
}

/// A damaged file costs itself.
pub(super) fn pass_over(work: &PieceQueue, job: &PieceJob, fault: ReadError) -> Result<()> {
    match (fault, job.piece.file()) {
        (ReadError::Damaged(why), Some(file)) => {
            work.set_aside(file, why);
            Ok(())
        }
        (fault, _) => Err(external(fault)),
    }
}

/// The rows of a piece that are within the time; none where there are none.
pub(super) async fn begin(
    work: &PieceQueue,
    columns: &ColumnProjection,
    piece: &SearchPiece,
) -> Result<Option<Batches>, ReadError> {
    let within = work.files.in_time(piece, &work.wanted).await?;
    if within.as_ref().is_some_and(|within| within.is_empty()) {
        return Ok(None);
    }
    let batches = work.files.read(piece, columns, within.as_ref()).await?;
    Ok(Some(batches))
}

pub(super) fn external(fault: ReadError) -> DataFusionError {
    DataFusionError::External(Box::new(fault))
}
