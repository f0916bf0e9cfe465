//! Obs: shards of the recorded size and content, and what is in them.

use super::files::check_record;
use super::{Context, Fault, Level};
use crate::keys;
use crate::manifest::FileRecord;

/// Checks the shards, and that there is a schema.
pub(super) fn check(context: &Context<'_>, faults: &mut Vec<Fault>) {
    let Context { storage, manifest, .. } = *context;
    let Some(obs) = &manifest.obs else { return };
    for (shard, (bytes, sha256)) in (0..).zip(obs.shard_bytes.iter().zip(&obs.shard_sha256)) {
        check_record(
            storage,
            &keys::obs_shard(shard),
            &FileRecord { bytes: *bytes, sha256: *sha256 },
            faults,
        );
    }
    let strict = context.options.level == Level::Strict;
    for error in crate::obs::verify::faults(storage, manifest, strict) {
        // The error names its object.
        let text = error.to_string();
        let (path, what) = text.split_once(": ").unwrap_or(("", &text));
        faults.push(Fault::new(path, what));
    }
}
