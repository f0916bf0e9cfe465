//! Frames that lie near each other in a tile, read at once.

use std::ops::Range;

use celltile::Dataset;

use super::plan::Job;

/// Bytes between frames that cost less to read along than another call to the system does.
const GAP: u64 = 4 << 10;
/// Most bytes of one read: a second-level cache keeps them until they are decoded.
const SPAN: u64 = 128 << 10;

/// The frames of some jobs, as far as it pays to read them together.
#[derive(Debug, Default)]
pub(super) struct Near {
    bytes: Vec<u8>,
    /// Where those of each job are.
    places: Vec<Option<Range<usize>>>,
}

impl Near {
    /// Reads for jobs in the order of the dataset. What cannot be read is left to be read, and found at fault, alone.
    pub(super) fn read<'j>(&mut self, dataset: &Dataset, jobs: impl Iterator<Item = &'j Job>) {
        self.bytes.clear();
        self.places.clear();
        let mut together: Vec<(&Job, Range<u64>)> = Vec::new();
        for job in jobs {
            let span = job.tile.head().frames_span(job.chunk).unwrap_or_default();
            let follows = together.first().zip(together.last()).is_some_and(|((first, start), (_, last))| {
                first.tile.index() == job.tile.index()
                    && span.start >= last.end
                    && span.start - last.end <= GAP
                    && span.end - start.start <= SPAN
            });
            if !follows {
                self.read_together(dataset, &together);
                together.clear();
            }
            together.push((job, span));
        }
        self.read_together(dataset, &together);
    }

    fn read_together(&mut self, dataset: &Dataset, jobs: &[(&Job, Range<u64>)]) {
        let alone = self.places.len() + jobs.len();
        if let (Some((job, first)), Some((_, last)), 2..) = (jobs.first(), jobs.last(), jobs.len()) {
            let base = self.bytes.len();
            let offset = |at: u64| base + usize::try_from(at - first.start).unwrap_or_default();
            if matches!(dataset.read_span(&job.tile, first.start..last.end, &mut self.bytes), Ok(true)) {
                self.places.extend(jobs.iter().map(|(_, span)| Some(offset(span.start)..offset(span.end))));
            } else {
                self.bytes.truncate(base);
            }
        }
        self.places.resize(alone, None);
    }

    /// The frames of the job of that number, if they were read.
    pub(super) fn of(&self, number: usize) -> Option<&[u8]> {
        self.places.get(number)?.clone().and_then(|place| self.bytes.get(place))
    }
}
