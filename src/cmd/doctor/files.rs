//! Files that the configured sources would read, for the doctor.

use inrush_config::{Config, FileSurvey, SurveyedPaths};
use inrush_host::doctor::{FileRequirement, FoundPaths};

/// A requirement for each source that reads files.
pub(super) fn ask(config: &Config) -> Vec<FileRequirement> {
    let sources = config.sources.iter();
    let surveyed = sources.filter_map(|(name, source)| Some((name, source.options().survey()?)));
    surveyed
        .map(|(name, survey)| requirement(name, survey))
        .collect()
}

fn requirement(source: &str, survey: FileSurvey) -> FileRequirement {
    FileRequirement {
        source: source.to_owned(),
        folders: survey.folders,
        files: survey.files,
        is_partial: survey.is_partial,
        denied: paths(survey.denied),
        skipped: paths(survey.skipped),
        polled: paths(survey.polled),
        unmatched: survey.unmatched,
        no_watch: survey.no_watch,
    }
}

fn paths(paths: SurveyedPaths) -> FoundPaths {
    let listed = paths.listed.into_iter();
    FoundPaths {
        listed: listed.map(|one| (one.path, one.reason)).collect(),
        count: paths.count,
    }
}
