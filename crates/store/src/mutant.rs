//! Deliberate bugs, for the simulation to find.

inrush_event::mutants! {
    ForgetAfterLink "forget-after-link" "A commit that is not durable counts as not made.",
    SkipReadBack "skip-read-back" "A commit whose name is taken counts as ours unread.",
    DeleteEarly "delete-early" "Files are deleted before the commit that removes them.",
    CoveredOffByOne "covered-off-by-one" "A commit says that it holds one event more than it does.",
    NoSettle "no-settle" "A start does not make the last commit durable.",
    NoFence "no-fence" "A start does not take the number that a late commit wants.",
    PassDoubt "pass-doubt" "Another commit is made before the one that is in doubt.",
    NameEarly "name-early" "Files have their final names before the commit.",
    ReusePart "reuse-part" "What is left of a write is written over, though it may be a commit.",
    TrustFolder "trust-folder" "A folder that is found counts as durable after a sync.",
    BuryOneName "bury-one-name" "Of a removed file with two names one is deleted.",
    CountTries "count-tries" "A commit that was made at last is not counted.",
    TrustNumber "trust-number" "A number that is free is taken for one that nobody had.",
    FoundUnsynced "found-unsynced" "A file that a repair finds counts as durable.",
    TrustOldName "trust-old-name" "A file with two names is read by the one that is deleted.",
    NameFound "name-found" "A file that was found is renamed from a name that it has not.",
    YoungForRoom "young-for-room" "Files of whatever age are deleted for room.",
    TrustStamp "trust-stamp" "A wrong clock's stamps count.",
    DeleteLog "delete-log" "Commits are deleted before the list that tells them is durable.",
}
