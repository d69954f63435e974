//! File source: log files of a host and of its containers, each line once. The reader of logs is
//! [`inrush_tail`], and its options are there; here it is a source among others.

use std::any::Any;
use std::sync::Arc;

use inrush_event::MetricsPage;
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::enrichment::Enrichment;
use inrush_tail::listing::FileListing;
use inrush_tail::options::FileSource;
use inrush_tail::workload::{ClusterWatches, WorkloadState};
use inrush_tail::{LogTailer, TailServices};

use crate::options::{OptionProblem, SourceOptions, check_product, of_type};
use crate::services::SharedThreads;
use crate::survey::FileSurvey;
use crate::{Source, SourceServices, StartedSource};

/// The options of a file source; `None`: it is a source of another type.
pub fn file_source(options: &dyn SourceOptions) -> Option<&FileSource> {
    options.as_any().downcast_ref()
}

impl SourceOptions for FileSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        "file"
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn sourcetype(&self) -> &str {
        self.sourcetype.as_deref().unwrap_or("file")
    }

    fn product(&self) -> Option<&str> {
        self.product.as_deref()
    }

    fn survey(&self) -> Option<FileSurvey> {
        // A pattern that is none was refused before.
        FileSurvey::of(&self.include, &self.exclude, self.follow_outside).ok()
    }

    fn validate(&self) -> Result<(), OptionProblem> {
        self.check()
            .map_err(|(path, words)| OptionProblem::new(path, words))?;
        let product = self.product.as_deref();
        check_product("product", product, self.packs, "nginx/nginx")
    }

    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        let clusters = services.shared(|| Ok(ClusterWatches::default()));
        let shared = TailServices {
            context: services.context.clone(),
            places: Arc::clone(&services.files),
            clusters: clusters.map_err(|error| error.to_string())?,
            carry_bytes: services.sizes.carry_bytes,
        };
        let tailer = LogTailer::start(self.info(name), self, shared, known)?;
        Ok(StartedSource {
            source: Arc::new(tailer),
            problems: Vec::new(),
        })
    }
}

impl Source for LogTailer {
    fn ingest(&self) -> &Arc<IngestSource> {
        Self::ingest(self)
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let name = &Self::ingest(self).name;
        let options = of_type::<FileSource>(options, name)?;
        Self::prepare(self, options.info(name), options, known)
    }

    fn commit(&self) -> Vec<String> {
        Self::commit(self);
        Vec::new()
    }

    fn metrics(&self, page: &mut MetricsPage) {
        Self::metrics(self, page);
    }

    fn workloads(&self) -> Vec<WorkloadState> {
        Self::workloads(self)
    }

    fn files(&self, most: usize) -> Option<FileListing> {
        Some(Self::files(self, most))
    }

    fn is_dead(&self) -> bool {
        Self::is_dead(self)
    }

    fn close(&self) {
        Self::stop(self);
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn ended(&self) -> bool {
        Self::ended(self)
    }
}

impl SharedThreads for ClusterWatches {
    fn stop(&self) {
        Self::stop(self);
    }

    /// They have ended once they were told to.
    fn ended(&self) -> bool {
        true
    }

    fn join(&self) {}
}
