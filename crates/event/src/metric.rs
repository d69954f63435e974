//! The metric catalogue: every name that `/metrics` can show, once, with its kind and meaning.
//!
//! Grammar: `inrush_<room>_<what>[_<unit>][_total]`, beside the `process_*` of all programs;
//! counters end in `_total`, histograms in `_seconds`; units are base units (seconds, bytes),
//! labels are closed sets or names from the configuration.

/// Kind of a metric: how its value moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// A level.
    Gauge,
    /// Times, counted by their length.
    Histogram,
}

macro_rules! metrics {
    ($($variant:ident $kind:ident $name:literal $help:literal;)*) => {
        /// Every metric of the product.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Metric { $(#[doc = $help] $variant,)* }

        impl Metric {
            /// The whole catalogue, in the order of the page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The exposed name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HELP text.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }

            /// Counter, gauge or histogram.
            pub const fn kind(self) -> MetricKind {
                match self { $(Self::$variant => MetricKind::$kind,)* }
            }
        }
    };
}

metrics! {
    SourceReceived Counter "inrush_source_received_events_total" "Events that reached the process, by source.";
    SourceReceivedBytes Counter "inrush_source_received_bytes_total" "Bytes of those events without framing, by source.";
    SourceAccepted Counter "inrush_source_accepted_events_total" "Events that the queue took, by source.";
    SourceHeld Gauge "inrush_source_held_events" "Parts of events that wait in memory for the others, by source.";
    SourceRejected Counter "inrush_source_rejected_events_total" "Events received but not accepted, by source and reason.";
    SourceCutBytes Counter "inrush_source_cut_bytes_total" "Bytes that came over the network and are in no event, by source and reason.";
    SourceKernelDropped Counter "inrush_source_kernel_dropped_datagrams_total" "Datagrams that the kernel dropped before they could be read, by source.";
    SourceLostUpstream Counter "inrush_source_lost_upstream_events_total" "Events that were lost before the source could read them, by source and reason.";
    SourceAnomalies Counter "inrush_source_anomalies_total" "Oddities of accepted events, by source and anomaly.";
    ZoneGuesses Counter "inrush_source_zone_guesses_total" "Guesses of the zone of a sender, by source and whether one was made, changed or ended.";
    Filtered Counter "inrush_filtered_events_total" "Events that a rule took out: accepted, and sent nowhere, by rule.";
    ExpressionFailures Counter "inrush_expression_failures_total" "Events for which an expression of a transform or a route failed, by rule.";
    SourceUnrecognised Counter "inrush_source_unrecognised_events_total" "Events that no rule recognised, by source.";
    SourceShared Counter "inrush_source_shared_total" "Times that a thread without rest began to share its work with other cores, by source.";
    SourceSharedBatches Counter "inrush_source_shared_batches_total" "Batches that were parsed and recognised by other cores than the one that read them, by source.";
    SourceSharedLate Counter "inrush_source_shared_late_batches_total" "Those of them that waited for it for more than 5 ms, by source.";
    NamesGiven Counter "inrush_names_given_events_total" "Events whose host was named by what is known of the sender, by the origin of the name.";
    NamesRemembered Gauge "inrush_names_remembered_senders" "Senders that gave a name, or an address that is not theirs, in an event.";
    ReverseDnsLookups Counter "inrush_reverse_dns_lookups_total" "Senders that DNS was asked for, by outcome.";
    ReverseDnsDropped Counter "inrush_reverse_dns_dropped_lookups_total" "Times that a sender was not looked up, since too many waited.";
    ReverseDnsSenders Gauge "inrush_reverse_dns_senders" "Senders of which is known what DNS says.";
    SourceConnections Gauge "inrush_source_connections" "Open stream connections, by source.";
    SourceConnectionsAccepted Counter "inrush_source_connections_accepted_total" "Stream connections taken, by source.";
    SourceConnectionErrors Counter "inrush_source_connection_errors_total" "Stream connections refused or ended early, by source and reason.";
    SourceReceiveBuffer Gauge "inrush_source_receive_buffer_bytes" "Receive buffer that the kernel granted, summed over the UDP sockets of a source.";
    ReceiveLag Histogram "inrush_receive_lag_seconds" "Time from an event to its receipt, for events that carry a time, by source.";
    EventLag Histogram "inrush_event_lag_seconds" "Time from an event to its delivery, by source and destination; an event without a time counts from its receipt on.";
    RequestTime Histogram "inrush_request_seconds" "Time of a request or a write of a destination until its answer, and of a request to a source from its first byte until its answer.";
    HecTokenRequests Counter "inrush_hec_token_requests_total" "Requests with a token of an HTTP Event Collector, by source and token.";
    HecTokenEvents Counter "inrush_hec_token_events_total" "Events taken with a token of an HTTP Event Collector, by source and token.";
    HecTokenBytes Counter "inrush_hec_token_bytes_total" "Bytes of their texts.";
    HecTokenAnswers Counter "inrush_hec_token_answers_total" "Requests answered, by source, token and code.";
    HecTokenLastSeen Gauge "inrush_hec_token_last_request_seconds" "When the last request came with the token, in seconds since 1970; 0 before the first.";
    HecAcksGivenUp Counter "inrush_hec_acks_given_up_total" "Acknowledgements given up before a client asked for them, by source.";
    FileReadBytes Counter "inrush_file_read_bytes_total" "Bytes read from files, by source.";
    FilesOpen Gauge "inrush_file_open_files" "Files that are open, by source.";
    FilesPolled Gauge "inrush_file_polled_files" "Files that are polled, since the kernel does not report their changes, by source.";
    FilesWaiting Gauge "inrush_file_waiting_files" "Files that wait under their names until fewer files are open, by source.";
    FileRotations Counter "inrush_file_rotations_total" "Files that were read to their end and followed by the next one of their log, by source.";
    FileRotatedAway Counter "inrush_file_rotated_away_unread_bytes_total" "Bytes that were deleted before they could be read, by source.";
    FileMissedGenerations Counter "inrush_file_missed_generations_total" "Files that were made and deleted before they could be opened, by source.";
    FileTruncated Counter "inrush_file_truncated_total" "Files that became shorter than what was read of them, and were read anew, by source.";
    FileInodeReused Counter "inrush_file_inode_reused_total" "Files found under the inode of another one, by source.";
    FileHolesSkipped Counter "inrush_file_hole_skipped_total" "Runs of zero bytes that were skipped, by source.";
    FileLinesCut Counter "inrush_file_line_cut_total" "Lines that were longer than `max_line_bytes` and cut, by source.";
    FileMalformedLines Counter "inrush_file_malformed_lines_total" "Lines that are not in the form of their file, taken as they are, by source.";
    FileFailures Counter "inrush_file_failures_total" "Files that could not be opened or read, by source.";
    FileMetadataMissing Counter "inrush_file_metadata_missing_total" "Events of containers that went without metadata of Kubernetes, which had not come in time, by source.";
    FileExcludedBytes Counter "inrush_file_excluded_bytes_total" "Bytes of files that were passed over, for an annotation excludes their container, by source.";
    FileJoinedEvents Counter "inrush_file_joined_events_total" "Events that were joined from several pieces or lines, by source.";
    FilePartialFlushed Counter "inrush_file_partial_flushed_total" "Lines and events that were ended before their last piece or line was seen, by source and reason.";
    FileCompressedFaults Counter "inrush_file_compressed_faults_total" "Compressed files that could not be read as a whole, by source and reason.";
    JournalGaps Counter "inrush_journal_gaps_total" "Places in a journal where entries are missing between two that were read, by source.";
    JournalRestarts Counter "inrush_journal_reader_restarts_total" "Starts of `journalctl` beyond the first, by source and reason.";
    JournalRunning Gauge "inrush_journal_reader_running" "1 while a `journalctl` of the source gives entries or waits for some, else 0.";
    KubernetesEventsLead Gauge "inrush_kubernetes_events_lead" "1 while this process has the Lease and reads the events of the cluster, else 0, by source.";
    KubernetesEventsWatch Counter "inrush_kubernetes_events_watch_total" "Happenings of the watch and of the Lease, by source and reason.";
    KubernetesEventsRepeated Counter "inrush_kubernetes_events_repeated_total" "Events that came again and were passed over, by source.";
    KubernetesEventsAnomalies Counter "inrush_kubernetes_events_anomalies_total" "Odd things in answers of the Kubernetes API, by source and reason.";
    TlsCertificateNotAfter Gauge "inrush_tls_certificate_not_after_seconds" "When the served certificate ends, in seconds since 1970, by source.";
    TlsReloads Counter "inrush_tls_certificate_reloads_total" "Certificate reloads, by source and result.";
    QueueBytes Gauge "inrush_queue_memory_bytes" "Memory that queued batches pin.";
    QueueBytesMax Gauge "inrush_queue_memory_bytes_max" "The memory budget of the queue.";
    QueueDiskBytes Gauge "inrush_queue_disk_bytes" "Bytes of the queue's segments on disk.";
    QueueDiskBytesMax Gauge "inrush_queue_disk_bytes_max" "The disk budget of the queue; 0 without a disk.";
    QueueSegments Gauge "inrush_queue_segments" "Segments of the queue on disk.";
    QuarantineBytes Gauge "inrush_quarantine_disk_bytes" "Bytes of refused events on disk.";
    QuarantineBytesMax Gauge "inrush_quarantine_disk_bytes_max" "The disk budget of quarantine.";
    QueueStalled Gauge "inrush_queue_stalled" "1 while nothing can be written to the queue's disk, else 0.";
    StoreFiles Gauge "inrush_store_files" "Parquet files of an embedded store, by destination.";
    StoreFileBytes Gauge "inrush_store_file_bytes" "Bytes of those files.";
    StoreEvents Gauge "inrush_store_events" "Events in those files.";
    StoreTailEvents Gauge "inrush_store_tail_events" "Events that are searchable from memory only, by destination.";
    StoreLag Histogram "inrush_store_searchable_lag_seconds" "Time from the first read of a batch until its events could be searched, by destination.";
    StoreWritten Counter "inrush_store_written_events_total" "Events written to files, by destination.";
    StoreWrittenText Counter "inrush_store_written_text_bytes_total" "Bytes of their raw text.";
    StoreWrittenBytes Counter "inrush_store_written_file_bytes_total" "Bytes of files written, those of compaction included, by destination.";
    StoreCompacted Counter "inrush_store_compacted_files_total" "Small files that were merged into others, by destination.";
    StoreExpired Counter "inrush_store_expired_events_total" "Events that retention has deleted, by destination and reason.";
    StoreRepeated Counter "inrush_store_repeated_events_total" "Events that the queue delivered again after a crash and a file held already, by destination.";
    StoreUnreadable Gauge "inrush_store_unreadable_events" "Events in files that are damaged or missing, which no search finds, by destination.";
    StoreSearchable Gauge "inrush_store_searchable_events" "Events in files that searches find, by destination.";
    StoreBadFiles Gauge "inrush_store_bad_files" "Files that could not be read and are passed over, by destination.";
    StoreRoomFree Gauge "inrush_store_room_free_bytes" "Free bytes of the file system of an embedded store, by destination.";
    StoreRoomWanted Gauge "inrush_store_room_wanted_bytes" "Free bytes below which a store deletes its oldest events: its `free`, and what the queue and quarantine may still take.";
    StoreClockOff Gauge "inrush_store_clock_off_seconds" "By how much the system clock is ahead of the time that events are kept by; 0 while it is believed.";
    DestinationAccepted Counter "inrush_destination_accepted_events_total" "Events put before a destination.";
    DestinationDelivered Counter "inrush_destination_delivered_events_total" "Events that a destination has taken.";
    DestinationDeliveredBytes Counter "inrush_destination_delivered_bytes_total" "Bytes of the raw records that a destination has taken.";
    DestinationQuarantined Counter "inrush_destination_quarantined_events_total" "Events that a destination refused, by reason.";
    DestinationDropped Counter "inrush_destination_dropped_events_total" "Events given up, by destination and reason.";
    DestinationRetried Counter "inrush_destination_retried_events_total" "Deliveries put back to be tried again, in events.";
    DestinationRerouted Counter "inrush_destination_rerouted_events_total" "Events sent to another index, by the index that the destination does not take.";
    DestinationOverflow Counter "inrush_destination_overflow_events_total" "Events written to the overflow file of a destination, since senders named too many paths or the file system has few inodes left.";
    DestinationErrors Counter "inrush_destination_errors_total" "Failed attempts at a destination, by reason.";
    DestinationConcurrency Gauge "inrush_destination_concurrency" "Requests that may be in flight at once; lowered while the destination is busy.";
    DestinationBacklog Gauge "inrush_destination_backlog_bytes" "Bytes of the queue that a destination keeps from being deleted.";
    DestinationBacklogMax Gauge "inrush_destination_backlog_bytes_max" "What the backlog of a destination may keep: its own limit, or that of the queue.";
    DestinationPending Gauge "inrush_destination_pending_events" "Events neither delivered nor given up.";
    DestinationOldestPending Gauge "inrush_destination_oldest_pending_seconds" "Age of the oldest pending event.";
    LedgerBalanced Gauge "inrush_ledger_balanced" "1 if every event has a fate, else 0.";
    Reloads Counter "inrush_config_reloads_total" "Configuration reloads, by result.";
    AdminLogins Counter "inrush_admin_logins_total" "Logins at the admin API, by result.";
    AdminRefused Counter "inrush_admin_requests_refused_total" "Requests to the admin API without a session or token, or without its CSRF token, by reason.";
    AdminCertificateNotAfter Gauge "inrush_admin_tls_certificate_not_after_seconds" "When the certificate of the admin API ends, in seconds since 1970.";
    AdminTlsReloads Counter "inrush_admin_tls_certificate_reloads_total" "Reloads of the certificate of the admin API, by result.";
    DescriptorsMax Gauge "inrush_process_descriptors_max" "Descriptors that the process may have open.";
    DescriptorsReserved Gauge "inrush_process_descriptors_reserved" "Descriptors that connections of senders never take: they are for queue, destinations and the admin API.";
    ConnectionsMax Gauge "inrush_process_connections_max" "Connections that the limit of descriptors leaves to all sources together.";
    CpuPeriods Counter "inrush_process_cpu_periods_total" "Periods of the CPU quota of the control group that was held back most.";
    CpuThrottledPeriods Counter "inrush_process_cpu_throttled_periods_total" "Periods of them in which the quota was used up, so that all threads stood still.";
    CpuThrottled Counter "inrush_process_cpu_throttled_seconds_total" "Time for which the threads of that group stood still.";
    ProcessStart Gauge "inrush_process_start_time_seconds" "When the process started, in seconds since 1970.";
    BuildInfo Gauge "inrush_build_info" "1, with the version as a label.";
    StandardStart Gauge "process_start_time_seconds" "When the process started, in seconds since 1970.";
    StandardCpu Counter "process_cpu_seconds_total" "CPU time of the process, in its own code and in the kernel.";
    StandardResident Gauge "process_resident_memory_bytes" "Memory of the process that is in RAM.";
    StandardVirtual Gauge "process_virtual_memory_bytes" "Address space of the process.";
    StandardThreads Gauge "process_threads" "Threads of the process.";
    StandardOpenFiles Gauge "process_open_fds" "Descriptors that the process has open.";
    StandardOpenFilesMax Gauge "process_max_fds" "Descriptors that the process may have open.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar() {
        for metric in Metric::ALL {
            let name = metric.name();
            // Names that clients of Prometheus have in common begin with `process_`.
            let standard = name.starts_with("process_");
            assert!(standard || name.starts_with("inrush_"), "{name}");
            let counter = metric.kind() == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), counter, "{name}");
            let histogram = metric.kind() == MetricKind::Histogram;
            assert!(!histogram || name.ends_with("_seconds"), "{name}");
            assert!(metric.help().ends_with('.'), "{name}");
        }
    }
}
