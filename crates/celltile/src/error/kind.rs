use super::Error;

/// The kinds of a crate's errors: an `ErrorKind` for every variant of its `Error`.
#[doc(hidden)]
#[macro_export]
macro_rules! error_kinds {
    ($($kind:ident),+ $(,)?) => {
        /// The kind of an [`Error`], without what it carries: what bindings to other languages map to classes of their
        /// own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(
                #[doc = concat!("[`Error::", stringify!($kind), "`].")]
                $kind,
            )+
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)+
                }
            }
        }

        impl Error {
            /// Which kind of error it is.
            #[must_use]
            pub fn kind(&self) -> ErrorKind {
                match self {
                    $(Self::$kind { .. } => ErrorKind::$kind,)+
                }
            }
        }
    };
}

error_kinds!(
    Io,
    NotFound,
    Size,
    Changed,
    Key,
    NotADataset,
    Manifest,
    Tile,
    TileMismatch,
    Checksum,
    File,
    OutOfRange,
    Argument,
    Cell,
    Table,
    NoColumn,
    Cache,
    Occupied,
    WriterStopped,
    Cancelled,
    BigEndianHost,
);
