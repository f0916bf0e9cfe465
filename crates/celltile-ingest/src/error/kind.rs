use super::Error;

celltile::error_kinds!(
    Io,
    Locked,
    NotRecognised,
    Truncated,
    Damaged,
    Unsupported,
    Missing,
    Length,
    Value,
    Repeated,
    Columns,
    Memory,
    Write,
    Dataset,
    Simulate,
    Table,
    Options,
    Unfit,
    Changed,
    Cancelled,
);
