use super::Error;

macro_rules! kinds {
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

kinds!(
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
