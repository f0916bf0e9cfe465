//! How requests are made, repeated and given up.

use std::fmt;
use std::time::Duration;

/// How requests are made, repeated and given up.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Requests under way at once, of one storage.
    pub max_requests: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an answer, or its next bytes, may take before the attempt is given up.
    pub stall_timeout: Duration,
    /// Attempts after the first that may fail in a row. One that brought new bytes of the object starts the count
    /// again.
    pub retries: u32,
    /// The pause before the first retry; it doubles with each, with jitter.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// How long a request and its retries may take together, in addition to a second for each half MiB of its bytes.
    pub deadline: Duration,
    /// Ranges of one object that are at most so many bytes apart are fetched by one request, if the bytes between
    /// them are no more than the bytes wanted.
    pub join_gap: u64,
    /// Bytes of a multipart upload's part: at least 5 MiB for most stores, and they take at most 10,000 parts.
    pub part_bytes: usize,
    /// Settings beside those of the environment, and before them: `("aws_endpoint_url", "http://...")`. The names
    /// are those of the environment variables, in lower case.
    pub settings: Vec<(String, String)>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            max_requests: 32,
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(20),
            retries: 8,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
            deadline: Duration::from_secs(120),
            join_gap: 256 << 10,
            part_bytes: 16 << 20,
            settings: Vec::new(),
        }
    }
}

impl RemoteOptions {
    /// How long a request for so many bytes may take, its retries included.
    #[must_use]
    pub fn budget(&self, bytes: u64) -> Duration {
        self.deadline.saturating_add(Duration::from_secs(bytes >> 19))
    }
}

/// The values of settings may be secrets.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("RemoteOptions")
            .field("max_requests", &self.max_requests)
            .field("connect_timeout", &self.connect_timeout)
            .field("stall_timeout", &self.stall_timeout)
            .field("retries", &self.retries)
            .field("first_pause", &self.first_pause)
            .field("longest_pause", &self.longest_pause)
            .field("deadline", &self.deadline)
            .field("join_gap", &self.join_gap)
            .field("part_bytes", &self.part_bytes)
            .field("settings", &settings)
            .finish()
    }
}
