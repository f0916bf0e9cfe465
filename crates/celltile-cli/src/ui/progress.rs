//! How far a long command is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::number;
use crate::host::{self, Told};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar on a terminal, lines elsewhere.
    #[default]
    Auto,
    /// A bar.
    Bar,
    /// A line every few seconds.
    Lines,
    /// Nothing.
    None,
}

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(5);

/// One stage of a command, counted in some unit.
pub(crate) struct Progress {
    stage: String,
    unit: &'static str,
    total: u64,
    start: Instant,
    how: How,
}

enum How {
    Bar(ProgressBar),
    /// When the last line was written.
    Lines(Mutex<Instant>),
    /// The program that runs the command shows it.
    Told(Told),
    Silent,
}

impl Progress {
    /// Starts a stage of `total` cells, tiles or whatever `unit` says.
    pub(crate) fn new(mode: ProgressMode, stage: &str, unit: &'static str, total: u64) -> Self {
        Self::told(host::hooks().map(|hooks| hooks.told), mode, stage, unit, total)
    }

    /// Starts a stage that `told` hears of, if it is given.
    fn told(told: Option<Told>, mode: ProgressMode, stage: &str, unit: &'static str, total: u64) -> Self {
        let start = Instant::now();
        if let Some(told) = told {
            return Self { stage: stage.to_owned(), unit, total, start, how: How::Told(told) };
        }
        let how = match mode {
            ProgressMode::Bar => How::bar(stage, unit, total),
            ProgressMode::Auto if std::io::stderr().is_terminal() => How::bar(stage, unit, total),
            ProgressMode::Auto | ProgressMode::Lines => How::Lines(Mutex::new(start)),
            ProgressMode::None => How::Silent,
        };
        Self { stage: stage.to_owned(), unit, total, start, how }
    }

    /// So much is done.
    pub(crate) fn set(&self, done: u64) {
        match &self.how {
            How::Bar(bar) => bar.set_position(done),
            How::Lines(last) => {
                let now = Instant::now();
                // Whoever comes while another thread writes a line has nothing newer to say.
                if let Ok(mut last) = last.try_lock()
                    && now.duration_since(*last) >= PAUSE
                {
                    *last = now;
                    eprintln!("{}", self.line(done, now.duration_since(self.start)));
                }
            }
            How::Told(told) => told(&self.stage, self.unit, done, self.total),
            How::Silent => {}
        }
    }

    fn line(&self, done: u64, time: Duration) -> String {
        let (stage, unit) = (&self.stage, self.unit);
        let rate = done as f64 / time.as_secs_f64();
        let mut line = format!("{stage}: {} of {} {unit}", number::count(done), number::count(self.total));
        line.push_str(&format!(", {} {unit}/s", number::decimal(rate)));
        if let Ok(left) = Duration::try_from_secs_f64(self.total.saturating_sub(done) as f64 / rate) {
            line.push_str(&format!(", {} left", number::duration(left)));
        }
        line
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let How::Bar(bar) = &self.how {
            bar.finish_and_clear();
        }
    }
}

/// The stages of a command, one after the other; each starts when it is first heard of.
#[derive(Clone)]
pub(crate) struct Stages {
    /// Of the thread that runs the command; stages may start on others.
    told: Option<Told>,
    mode: ProgressMode,
    current: Arc<Mutex<Option<Progress>>>,
}

impl Stages {
    pub(crate) fn new(mode: ProgressMode) -> Self {
        Self { told: host::hooks().map(|hooks| hooks.told), mode, current: Arc::default() }
    }

    /// So much of a stage is done.
    pub(crate) fn at(&self, stage: &'static str, unit: &'static str, done: u64, total: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|progress| progress.stage != stage) {
            // The old bar goes before the new one comes.
            current.take();
            *current = Some(Progress::told(self.told.clone(), self.mode, stage, unit, total));
        }
        if let Some(progress) = &*current {
            progress.set(done);
        }
    }

    /// The command is done.
    pub(crate) fn end(&self) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl How {
    fn bar(stage: &str, unit: &'static str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
        let rate = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{} {unit}/s", number::decimal(state.per_sec()));
        };
        let template = "{prefix:8} [{wide_bar}] {human_pos}/{human_len}  {rate}  {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        bar.set_prefix(stage.to_owned());
        Self::Bar(bar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_line_has_rate_and_time_left() {
        let progress = Progress::new(ProgressMode::Lines, "encode", "cells", 40_000);
        assert_eq!(
            progress.line(10_000, Duration::from_secs(2)),
            "encode: 10,000 of 40,000 cells, 5,000 cells/s, 6.00 s left"
        );
        assert_eq!(progress.line(0, Duration::from_secs(2)), "encode: 0 of 40,000 cells, 0.00 cells/s");
    }
}
