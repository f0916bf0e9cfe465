use std::str::Utf8Error;
use std::sync::{Arc, Mutex};

use hdf5_reader::global_heap::GlobalHeapCollection;

use super::dataset::Dataset;
use super::dtype::{Dtype, Padding};
use super::file::Shared;
use crate::error::Result;

/// The text of a fixed-length slot, its padding left out.
pub(crate) fn fixed_string(slot: &[u8], padding: Padding) -> Result<&str, Utf8Error> {
    let text = match padding {
        Padding::Null => slot.split(|&byte| byte == 0).next().unwrap_or(&[]),
        Padding::Space => {
            let end = slot.iter().rposition(|&byte| byte != b' ' && byte != 0).map_or(0, |at| at + 1);
            slot.get(..end).unwrap_or(&[])
        }
    };
    std::str::from_utf8(text)
}

/// Many strings, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StringColumn {
    ends: Vec<usize>,
    text: String,
}

impl StringColumn {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends a string.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// The string at a position.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { *self.ends.get(at - 1)? };
        self.text.get(start..end)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map_while(|at| self.get(at))
    }
}

impl<'a> FromIterator<&'a str> for StringColumn {
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Self {
        let mut column = Self::default();
        for text in strings {
            column.push(text);
        }
        column
    }
}

/// The global heap collections read last: strings written together lie together.
#[derive(Default)]
pub(crate) struct HeapCache(Mutex<Vec<(u64, Arc<Heap>)>>);

/// A global heap collection: its objects by index.
struct Heap(Vec<(u16, Vec<u8>)>);

impl Heap {
    fn get(&self, index: u16) -> Option<&[u8]> {
        let at = self.0.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.0.get(at).map(|(_, data)| data.as_slice())
    }
}

/// Collections kept: enough for columns whose strings alternate between a few.
const HEAPS_KEPT: usize = 16;

impl HeapCache {
    fn get(&self, shared: &Shared, address: u64) -> hdf5_reader::error::Result<Arc<Heap>> {
        if let Ok(mut heaps) = self.0.lock()
            && let Some(at) = heaps.iter().position(|(cached, _)| *cached == address)
        {
            let heap = heaps.remove(at);
            heaps.push(heap.clone());
            return Ok(heap.1);
        }
        let superblock = shared.parsed.superblock();
        let collection = GlobalHeapCollection::parse_at_storage(
            shared.parsed.storage(),
            address,
            superblock.offset_size,
            superblock.length_size,
        )?;
        let mut objects: Vec<_> =
            collection.objects.into_iter().map(|object| (object.index, object.data)).collect();
        objects.sort_by_key(|(index, _)| *index);
        let heap = Arc::new(Heap(objects));
        if let Ok(mut heaps) = self.0.lock() {
            if heaps.len() >= HEAPS_KEPT {
                heaps.remove(0);
            }
            heaps.push((address, Arc::clone(&heap)));
        }
        Ok(heap)
    }
}

impl Shared {
    /// Calls `each` with every variable-length string that `slots`, 16 bytes each, point at.
    pub(crate) fn heap_strings(&self, at: &str, slots: &[u8], mut each: impl FnMut(&str)) -> Result<()> {
        let mut heap: Option<(u64, Arc<Heap>)> = None;
        // Writers store each string on its own, as it is. Without this limit a few bytes could stand for any number of
        // strings, each of the same megabytes.
        let mut room = self.bytes.len();
        for (position, slot) in slots.chunks_exact(16).enumerate() {
            let fault = |what: String| self.damaged(at, format!("string {position}: {what}"));
            let (Some(len), Some(address), Some(index)) =
                (slot.first_chunk::<4>(), slot.get(4..12), slot.last_chunk::<4>())
            else {
                continue;
            };
            let len = u32::from_le_bytes(*len) as usize;
            let address = address.try_into().map_or(u64::MAX, u64::from_le_bytes);
            let index = u32::from_le_bytes(*index);
            if len == 0 || address == 0 {
                each("");
                continue;
            }
            let current = match &heap {
                Some((cached, current)) if *cached == address => Arc::clone(current),
                _ => {
                    let next = self.strings.get(self, address).map_err(|error| fault(error.to_string()))?;
                    heap = Some((address, Arc::clone(&next)));
                    next
                }
            };
            let data = u16::try_from(index).ok().and_then(|index| current.get(index));
            let data =
                data.ok_or_else(|| fault(format!("no object {index} in the heap at byte {address}")))?;
            let text = data
                .get(..len)
                .ok_or_else(|| fault(format!("{len} bytes declared, {} in the heap", data.len())))?;
            // The terminator may be counted in.
            let text = text.split(|&byte| byte == 0).next().unwrap_or(&[]);
            room = room
                .checked_sub(text.len() as u64)
                .ok_or_else(|| fault("more text than the file has bytes".into()))?;
            each(std::str::from_utf8(text).map_err(|_| fault("not UTF-8".into()))?);
        }
        Ok(())
    }
}

impl Dataset {
    /// All strings of a dataset of strings, fixed or variable in length, in row-major order.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Damaged`] if it holds no strings, they are not UTF-8, or their bytes cannot be found.
    pub fn strings(&self) -> Result<StringColumn> {
        let bytes = self.read_all()?;
        let mut column = StringColumn::default();
        match self.dtype() {
            Dtype::VarString if self.element_size() == 16 => {
                self.shared.heap_strings(self.path(), &bytes, |text| column.push(text))?;
            }
            Dtype::FixedString { size, padding } => {
                for (at, slot) in bytes.chunks_exact((*size).max(1)).enumerate() {
                    let text = fixed_string(slot, *padding);
                    column.push(text.map_err(|_| self.damaged(format!("string {at}: not UTF-8")))?);
                }
            }
            other => return Err(self.damaged(format!("{other}; expected strings"))),
        }
        Ok(column)
    }
}
