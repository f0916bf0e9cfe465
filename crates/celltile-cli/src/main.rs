//! The celltile command.

fn main() {}
