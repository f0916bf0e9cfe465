//! Writing: what an AnnData file needs of HDF5, over the crate `rust-hdf5`.
//!
//! Chunks are compressed by the caller (on all cores) or here, and handed over as they will stand in the file. Nothing
//! that is written depends on the time or the path, and the file appears under its name only when it is whole.

use std::fs;
use std::path::{Path, PathBuf};

use libdeflater::{CompressionLvl, Compressor};
use rust_hdf5::{DatatypeMessage, FileLocking, FilterPipeline, H5Dataset, H5File, H5Group, LibverBound};

use crate::error::{Error, Result};

/// Elements of a chunk of a one-dimensional array: 256 KiB of 4-byte elements.
pub const CHUNK_LEN: usize = 1 << 16;

/// Text of a chunk of strings.
const TEXT_CHUNK_LEN: usize = 1 << 12;

/// The type of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// `int8`.
    Int8,
    /// `int16`.
    Int16,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint8`.
    UInt8,
    /// `uint16`.
    UInt16,
    /// `uint32`.
    UInt32,
    /// `uint64`.
    UInt64,
    /// `float16`.
    Float16,
    /// `float32`.
    Float32,
    /// `float64`.
    Float64,
    /// A byte of 0 or 1, as h5py writes booleans: an enumeration of FALSE and TRUE.
    Bool,
}

impl Element {
    /// Bytes of an element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 | Self::Bool => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
        }
    }

    /// NumPy's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Bool => "bool",
        }
    }

    /// The element type of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    const ALL: [Self; 12] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Bool,
    ];

    /// The largest integer up to which this type holds every integer from 0.
    #[must_use]
    pub const fn exact_to(self) -> i32 {
        match self {
            Self::Bool => 1,
            Self::Int8 => i8::MAX as i32,
            Self::UInt8 => u8::MAX as i32,
            Self::Int16 => i16::MAX as i32,
            Self::UInt16 => u16::MAX as i32,
            Self::Float16 => 1 << 11,
            Self::Float32 => 1 << 24,
            _ => i32::MAX,
        }
    }

    /// Appends the little-endian bytes of counts as elements of this type, which holds them
    /// ([`exact_to`](Self::exact_to)).
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the caller has checked the range"
    )]
    pub fn extend(self, bytes: &mut Vec<u8>, values: &[i32]) {
        fn all<const N: usize>(bytes: &mut Vec<u8>, values: &[i32], le: impl Fn(i32) -> [u8; N]) {
            bytes.reserve(values.len() * N);
            for value in values {
                bytes.extend_from_slice(&le(*value));
            }
        }
        match self {
            Self::Int8 | Self::UInt8 | Self::Bool => all(bytes, values, |v| [v as u8]),
            Self::Int16 | Self::UInt16 => all(bytes, values, |v| (v as u16).to_le_bytes()),
            Self::Int32 | Self::UInt32 => all(bytes, values, i32::to_le_bytes),
            Self::Int64 | Self::UInt64 => all(bytes, values, |v| i64::from(v).to_le_bytes()),
            Self::Float16 => all(bytes, values, |v| half::f16::from_f32(v as f32).to_le_bytes()),
            Self::Float32 => all(bytes, values, |v| (v as f32).to_le_bytes()),
            Self::Float64 => all(bytes, values, |v| f64::from(v).to_le_bytes()),
        }
    }

    fn datatype(self) -> DatatypeMessage {
        match self {
            Self::Int8 => DatatypeMessage::i8_type(),
            Self::Int16 => DatatypeMessage::i16_type(),
            Self::Int32 => DatatypeMessage::i32_type(),
            Self::Int64 => DatatypeMessage::i64_type(),
            Self::UInt8 => DatatypeMessage::u8_type(),
            Self::UInt16 => DatatypeMessage::u16_type(),
            Self::UInt32 => DatatypeMessage::u32_type(),
            Self::UInt64 => DatatypeMessage::u64_type(),
            Self::Float16 => DatatypeMessage::f16_type(),
            Self::Float32 => DatatypeMessage::f32_type(),
            Self::Float64 => DatatypeMessage::f64_type(),
            Self::Bool => DatatypeMessage::bool_type(),
        }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Attr<'a> {
    /// UTF-8 text.
    Text(&'a str),
    /// A list of UTF-8 texts.
    Texts(&'a [&'a str]),
    /// A list of integers (int64).
    Integers(&'a [i64]),
    /// A boolean.
    Bool(bool),
}

/// Attributes in the order in which they are written.
pub type Attrs<'a> = &'a [(&'a str, Attr<'a>)];

/// An HDF5 file being written. It stands under a temporary name until [`finish`](Self::finish); dropped before that, it
/// leaves nothing.
pub struct Writer {
    file: Option<H5File>,
    temporary: PathBuf,
    target: PathBuf,
    level: Option<u32>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts a file that will replace `target`. Arrays of more than a few values are compressed with deflate `level`
    /// (1 to 12), or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the temporary file beside the target cannot be made.
    pub fn create(target: &Path, level: Option<u32>) -> Result<Self> {
        let name = target.file_name().ok_or_else(|| Error::Io {
            path: target.to_owned(),
            action: "write",
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, "not the name of a file"),
        })?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = target.with_file_name(temporary);
        // Made with the standard library first: its error says what the system said.
        fs::File::create(&temporary).map_err(|source| Error::Io {
            path: target.to_owned(),
            action: "create",
            source,
        })?;
        let mut writer = Self { file: None, temporary, target: target.to_owned(), level };
        let file = H5File::options().locking(FileLocking::Disabled).create(&writer.temporary);
        let file = file.map_err(|error| writer.failed("/", &error))?;
        let setup = file.set_libver_bound(LibverBound::V110).and_then(|()| file.set_track_times(false));
        writer.file = Some(file);
        setup.map_err(|error| writer.failed("/", &error))?;
        Ok(writer)
    }

    /// The file that is to be.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The level that chunks are compressed with, if they are.
    #[must_use]
    pub const fn level(&self) -> Option<u32> {
        self.level
    }

    /// Makes a group (its parents exist), or, for `/`, gives the root its attributes.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn group(&self, path: &str, attrs: Attrs<'_>) -> Result<()> {
        let group = if path == "/" {
            self.file()?.root_group()
        } else {
            let (parent, name) = self.parent(path)?;
            parent.create_group(name).map_err(|error| self.failed(path, &error))?
        };
        for (name, value) in attrs {
            set_group_attr(&group, name, *value).map_err(|error| self.failed(path, &error))?;
        }
        Ok(())
    }

    /// A one-dimensional array, whole: the little-endian bytes of its elements.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn array(&self, path: &str, element: Element, bytes: &[u8], attrs: Attrs<'_>) -> Result<()> {
        let len = bytes.len() / element.size();
        let chunk_len = CHUNK_LEN.min(len.max(1));
        let mut stream = self.stream_with(path, element, chunk_len, attrs)?;
        let mut packer = Packer::new(self.level);
        for chunk in bytes.chunks(chunk_len * element.size()) {
            stream.push(packer.pack(chunk, chunk_len * element.size()), chunk.len() / element.size())?;
        }
        stream.finish()
    }

    /// A single value: the little-endian bytes of one element.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn scalar(&self, path: &str, element: Element, bytes: &[u8], attrs: Attrs<'_>) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let write = || {
            let dataset = parent.new_dataset::<u8>().datatype(element.datatype()).scalar().create(name)?;
            dataset.write_raw_bytes(bytes)?;
            set_dataset_attrs(&dataset, attrs)
        };
        write().map_err(|error| self.failed(path, &error))
    }

    /// A one-dimensional array that is written chunk by chunk, as long as it turns out to be. All chunks but the last
    /// have [`CHUNK_LEN`] elements.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn stream(&self, path: &str, element: Element, attrs: Attrs<'_>) -> Result<ArrayStream<'_>> {
        self.stream_with(path, element, CHUNK_LEN, attrs)
    }

    fn stream_with(
        &self,
        path: &str,
        element: Element,
        chunk_len: usize,
        attrs: Attrs<'_>,
    ) -> Result<ArrayStream<'_>> {
        let (parent, name) = self.parent(path)?;
        let create = || -> rust_hdf5::Result<H5Dataset> {
            let mut builder = parent
                .new_dataset::<u8>()
                .datatype(element.datatype())
                .shape([0_usize])
                .max_shape(&[None])
                .chunk(&[chunk_len]);
            if let Some(level) = self.level {
                builder = builder.filter_pipeline(FilterPipeline::deflate(level.min(9)));
            }
            let dataset = builder.create(name)?;
            set_dataset_attrs(&dataset, attrs)?;
            Ok(dataset)
        };
        let dataset = create().map_err(|error| self.failed(path, &error))?;
        Ok(ArrayStream { writer: self, path: path.to_owned(), dataset, chunk_len, chunks: 0, len: 0 })
    }

    /// A one-dimensional array of UTF-8 strings of variable length.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn texts(&self, path: &str, values: &[&str], attrs: Attrs<'_>) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let write = || {
            if values.len() <= TEXT_CHUNK_LEN && !values.is_empty() {
                let dataset = parent.write_vlen_strings(name, values)?;
                return set_dataset_attrs(&dataset, attrs);
            }
            // Appendable, and so chunked: without elements a contiguous array would have no bytes, which libhdf5 takes for
            // damage; and the crate's other way of writing compressed strings makes an index that libhdf5 refuses.
            let pipeline = self.level.map(|level| FilterPipeline::deflate(level.min(9)));
            let chunk_len = TEXT_CHUNK_LEN.min(values.len().max(1));
            let dataset = parent.create_appendable_vlen_dataset(name, chunk_len, pipeline)?;
            for part in values.chunks(chunk_len) {
                parent.append_vlen_strings(name, part)?;
            }
            set_dataset_attrs(&dataset, attrs)
        };
        write().map_err(|error| self.failed(path, &error))
    }

    /// Ends the file: everything on disk, then the file under its name. Returns its size in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] or [`Error::Io`]; the target is as it was then.
    pub fn finish(mut self) -> Result<u64> {
        let file = self.file.take().ok_or_else(|| self.failed("/", &"the file is closed"))?;
        file.close().map_err(|error| self.failed("/", &error))?;
        let io = |action| {
            let path = self.target.clone();
            move |source| Error::Io { path, action, source }
        };
        let written = fs::File::open(&self.temporary).map_err(io("open"))?;
        written.sync_all().map_err(io("sync"))?;
        let size = written.metadata().map_err(io("measure"))?.len();
        fs::rename(&self.temporary, &self.target).map_err(io("rename"))?;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::File::open(folder.unwrap_or(Path::new("."))).map_err(io("open the folder of"))?;
        folder.sync_all().map_err(io("sync the folder of"))?;
        Ok(size)
    }

    fn file(&self) -> Result<&H5File> {
        self.file.as_ref().ok_or_else(|| self.failed("/", &"the file is closed"))
    }

    /// The group that holds an object, and the object's name in it.
    fn parent<'p>(&self, path: &'p str) -> Result<(H5Group, &'p str)> {
        let root = self.file()?.root_group();
        match path.trim_start_matches('/').rsplit_once('/') {
            None => Ok((root, path.trim_start_matches('/'))),
            Some((parent, name)) => {
                Ok((root.group(parent).map_err(|error| self.failed(path, &error))?, name))
            }
        }
    }

    fn failed(&self, at: &str, why: &dyn std::fmt::Display) -> Error {
        Error::Write { path: self.target.clone(), at: at.to_owned(), why: why.to_string() }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closed, not dropped: it would print what goes wrong, and the file is removed. After a finish there is nothing of
        // that name any more.
        if let Some(file) = self.file.take() {
            let _ = file.close_no_sync();
        }
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A one-dimensional array being written.
pub struct ArrayStream<'w> {
    writer: &'w Writer,
    path: String,
    dataset: H5Dataset,
    chunk_len: usize,
    chunks: usize,
    len: usize,
}

impl std::fmt::Debug for ArrayStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayStream")
            .field("path", &self.path)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl ArrayStream<'_> {
    /// Adds the next chunk, as [`Packer::pack`] made it, of `len` elements.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; also if the chunk before was not full.
    pub fn push(&mut self, packed: &[u8], len: usize) -> Result<()> {
        if self.len != self.chunks * self.chunk_len || len > self.chunk_len {
            return Err(self.writer.failed(&self.path, &"a chunk after one that was not full"));
        }
        let written = match self.writer.level {
            Some(_) => self.dataset.write_chunk_raw(self.chunks, packed, 0),
            None => self.dataset.write_chunk(self.chunks, packed),
        };
        written.map_err(|error| self.writer.failed(&self.path, &error))?;
        self.chunks += 1;
        self.len += len;
        Ok(())
    }

    /// Ends the array.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn finish(self) -> Result<()> {
        self.dataset.set_extent(&[self.len]).map_err(|error| self.writer.failed(&self.path, &error))
    }
}

/// Makes chunks as they stand in a file: filled up to their full length, and deflated. One a thread.
pub struct Packer {
    deflate: Option<Compressor>,
    full: Vec<u8>,
    packed: Vec<u8>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("deflate", &self.deflate.is_some()).finish_non_exhaustive()
    }
}

impl Packer {
    /// A packer for chunks of a [`Writer`] of that level. A level out of range becomes the fastest.
    #[must_use]
    pub fn new(level: Option<u32>) -> Self {
        let deflate = level.map(|level| {
            let level = i32::try_from(level).ok().and_then(|level| CompressionLvl::new(level).ok());
            Compressor::new(level.unwrap_or_else(CompressionLvl::fastest))
        });
        Self { deflate, full: Vec::new(), packed: Vec::new() }
    }

    /// The bytes of a chunk whose elements are `bytes`, and which has `size` bytes when it is full.
    pub fn pack(&mut self, bytes: &[u8], size: usize) -> &[u8] {
        self.full.clear();
        self.full.extend_from_slice(bytes);
        self.full.resize(size.max(bytes.len()), 0);
        let Some(deflate) = &mut self.deflate else { return &self.full };
        self.packed.resize(deflate.zlib_compress_bound(self.full.len()), 0);
        // The bound is always enough.
        let len = deflate.zlib_compress(&self.full, &mut self.packed).unwrap_or_default();
        self.packed.get(..len).unwrap_or_default()
    }
}

fn set_group_attr(group: &H5Group, name: &str, value: Attr<'_>) -> rust_hdf5::Result<()> {
    match value {
        Attr::Text(text) => group.set_attr_string(name, text),
        Attr::Texts(texts) => group.set_attr_string_array(name, texts),
        Attr::Integers(values) => group.set_attr_array_numeric(name, values),
        Attr::Bool(value) => group.set_attr_typed(name, DatatypeMessage::bool_type(), vec![value.into()]),
    }
}

fn set_dataset_attrs(dataset: &H5Dataset, attrs: Attrs<'_>) -> rust_hdf5::Result<()> {
    for (name, value) in attrs {
        match *value {
            Attr::Text(text) => {
                let attr = dataset.new_attr::<rust_hdf5::VarLenUnicode>().shape(()).create(name)?;
                attr.write_string(text)?;
            }
            Attr::Texts(texts) => {
                let attr =
                    dataset.new_attr::<rust_hdf5::VarLenUnicode>().shape([texts.len()]).create(name)?;
                attr.write_string_array(texts)?;
            }
            Attr::Integers(values) => {
                dataset.new_attr::<i64>().shape([values.len()]).create(name)?.write_array(values)?;
            }
            Attr::Bool(value) => {
                dataset.set_attr_typed(name, DatatypeMessage::bool_type(), vec![value.into()])?;
            }
        }
    }
    Ok(())
}
