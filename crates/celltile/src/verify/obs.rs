//! Obs: shards of the recorded size and content. What is in them is for the obs modules to say.

use super::files::check_record;
use super::{Context, Fault};
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
    if !manifest.files.contains_key(keys::OBS_SCHEMA) {
        super::files::report(storage, keys::OBS_SCHEMA, storage.size(keys::OBS_SCHEMA), faults);
    }
}
