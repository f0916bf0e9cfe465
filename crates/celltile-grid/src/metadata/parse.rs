//! From JSON to edges.

use super::scan::{Scanner, Value, shorten};
use crate::GridError;
use crate::axis::{Edges, Runs};
use crate::error::Place;

/// Which metadata are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `rectilinear`, of kind `inline`.
    Rectilinear,
    /// The older proposal: `chunk_shape`, no kind, no runs.
    Zep0003,
}

impl Form {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Rectilinear => &["rectilinear"],
            Self::Zep0003 => &["rectangular", "rectilinear"],
        }
    }

    fn shapes_key(self) -> &'static str {
        match self {
            Self::Rectilinear => "chunk_shapes",
            Self::Zep0003 => "chunk_shape",
        }
    }
}

/// A value that can be read once another is known, which may come later in the text: then it is passed over first.
#[derive(Debug, Default)]
enum Part {
    #[default]
    Missing,
    /// Where it starts.
    PassedOver(usize),
    Read(Vec<Edges>),
}

impl Part {
    fn found(
        scanner: &mut Scanner<'_>,
        known: bool,
        read: impl FnOnce(&mut Scanner<'_>) -> Result<Vec<Edges>, GridError>,
    ) -> Result<Self, GridError> {
        if known {
            return read(scanner).map(Self::Read);
        }
        let start = scanner.position();
        scanner.skip_value()?;
        Ok(Self::PassedOver(start))
    }

    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// The value, now that all else is known; an error if it is missing.
    fn read(
        self,
        scanner: &Scanner<'_>,
        missing: GridError,
        read: impl FnOnce(&mut Scanner<'_>) -> Result<Vec<Edges>, GridError>,
    ) -> Result<Vec<Edges>, GridError> {
        match self {
            Self::Missing => Err(missing),
            Self::PassedOver(start) => read(&mut scanner.at(start)),
            Self::Read(axes) => Ok(axes),
        }
    }
}

/// Reads a `chunk_grid` object, of that many dimensions where they are known.
pub(super) fn parse(json: &str, form: Form, ndim: Option<usize>) -> Result<Vec<Edges>, GridError> {
    const OBJECT: &str = "chunk_grid";
    let mut scanner = Scanner::new(json);
    expect_object(&mut scanner, OBJECT)?;
    let read = |scanner: &mut Scanner<'_>| parse_configuration(scanner, form, ndim);
    let (mut named, mut understood, mut configuration) = (false, false, Part::Missing);
    let mut first = true;
    while let Some(key) = scanner.key(first)? {
        first = false;
        match &*key {
            "name" if !named => {
                expect_text(&mut scanner, "name", form.names())?;
                named = true;
            }
            // What a configuration means depends on the name.
            "configuration" if configuration.is_missing() => {
                configuration = Part::found(&mut scanner, named, read)?;
            }
            "must_understand" if !understood => match scanner.value()? {
                Value::Bool(true) => understood = true,
                Value::Bool(false) => return Err(GridError::MustUnderstand),
                other => return Err(wrong_type("must_understand", &other, "true")),
            },
            "name" | "configuration" | "must_understand" => return Err(duplicate(OBJECT, &key)),
            _ => return Err(unknown(OBJECT, &key)),
        }
    }
    scanner.finish()?;
    if !named {
        return Err(GridError::MissingKey { object: OBJECT, key: "name" });
    }
    configuration.read(&scanner, GridError::MissingKey { object: OBJECT, key: "configuration" }, read)
}

fn parse_configuration(
    scanner: &mut Scanner<'_>,
    form: Form,
    ndim: Option<usize>,
) -> Result<Vec<Edges>, GridError> {
    const OBJECT: &str = "configuration";
    expect_object(scanner, OBJECT)?;
    let read = |scanner: &mut Scanner<'_>| parse_shapes(scanner, form, ndim);
    let (mut kind_known, mut shapes) = (form == Form::Zep0003, Part::Missing);
    let mut first = true;
    while let Some(key) = scanner.key(first)? {
        first = false;
        if key == form.shapes_key() {
            if !shapes.is_missing() {
                return Err(duplicate(OBJECT, &key));
            }
            // What the shapes mean depends on the kind.
            shapes = Part::found(scanner, kind_known, read)?;
        } else if key == "kind" && form == Form::Rectilinear {
            if kind_known {
                return Err(duplicate(OBJECT, &key));
            }
            expect_text(scanner, "kind", &["inline"])?;
            kind_known = true;
        } else {
            return Err(unknown(OBJECT, &key));
        }
    }
    if !kind_known {
        return Err(GridError::MissingKey { object: OBJECT, key: "kind" });
    }
    shapes.read(scanner, GridError::MissingKey { object: OBJECT, key: form.shapes_key() }, read)
}

fn parse_shapes(scanner: &mut Scanner<'_>, form: Form, ndim: Option<usize>) -> Result<Vec<Edges>, GridError> {
    match scanner.value()? {
        Value::Array => {}
        other => return Err(wrong_type(form.shapes_key(), &other, "an array with an element a dimension")),
    }
    let mut axes = Vec::new();
    while scanner.element(axes.is_empty())? {
        let number = axes.len();
        if let Some(expected) = ndim.filter(|ndim| *ndim == number) {
            let mut found = number;
            loop {
                scanner.skip_value()?;
                found += 1;
                if !scanner.element(false)? {
                    return Err(GridError::Dimensions { what: form.shapes_key(), found, expected });
                }
            }
        }
        axes.push(parse_axis(scanner, form).map_err(|error| error.on_axis(number))?);
    }
    match ndim {
        Some(expected) if expected != axes.len() => {
            Err(GridError::Dimensions { what: form.shapes_key(), found: axes.len(), expected })
        }
        _ => Ok(axes),
    }
}

fn parse_axis(scanner: &mut Scanner<'_>, form: Form) -> Result<Edges, GridError> {
    match scanner.value()? {
        Value::Array => {}
        value => return positive(&value).map(Edges::Integer).ok_or_else(|| edge_error(&value)),
    }
    let mut runs = Runs::default();
    let mut position = 0;
    while scanner.element(position == 0)? {
        parse_element(scanner, form, &mut runs).map_err(|error| error.at_position(position))?;
        position += 1;
    }
    if position == 0 {
        return Err(GridError::NoEdges { place: Place::default() });
    }
    Ok(Edges::List(Box::new(runs)))
}

/// One element of a list of edges: an edge, or a run `[edge, count]`.
fn parse_element(scanner: &mut Scanner<'_>, form: Form, runs: &mut Runs) -> Result<(), GridError> {
    match scanner.value()? {
        Value::Array if form == Form::Rectilinear => {
            let (edge, count) = parse_run(scanner)?;
            runs.push(edge, count)
        }
        value => runs.push(positive(&value).ok_or_else(|| edge_error(&value))?, 1),
    }
}

/// The rest of a run, after its bracket.
fn parse_run(scanner: &mut Scanner<'_>) -> Result<(u64, u64), GridError> {
    let pair = |found| GridError::Pair { place: Place::default(), found };
    if !scanner.element(true)? {
        return Err(pair(0));
    }
    let value = scanner.value()?;
    let edge = positive(&value).ok_or_else(|| edge_error(&value))?;
    if !scanner.element(false)? {
        return Err(pair(1));
    }
    let value = scanner.value()?;
    let count = positive(&value)
        .ok_or_else(|| GridError::Count { place: Place::default(), found: value.describe() })?;
    let mut items = 2;
    while scanner.element(false)? {
        scanner.skip_value()?;
        items += 1;
    }
    if items > 2 { Err(pair(items)) } else { Ok((edge, count)) }
}

/// An integer of at least 1.
fn positive(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Number(number) => number.integer.filter(|integer| *integer > 0),
        _ => None,
    }
}

fn edge_error(value: &Value<'_>) -> GridError {
    GridError::Edge { place: Place::default(), found: value.describe() }
}

fn expect_object(scanner: &mut Scanner<'_>, what: &'static str) -> Result<(), GridError> {
    match scanner.value()? {
        Value::Object => Ok(()),
        other => Err(wrong_type(what, &other, "an object")),
    }
}

fn expect_text(
    scanner: &mut Scanner<'_>,
    key: &'static str,
    expected: &'static [&'static str],
) -> Result<(), GridError> {
    match scanner.value()? {
        Value::String(text) if expected.contains(&&*text) => Ok(()),
        Value::String(text) => Err(GridError::Text { key, found: shorten(&text), expected }),
        other => Err(wrong_type(key, &other, "a string")),
    }
}

fn wrong_type(what: &'static str, found: &Value<'_>, expected: &'static str) -> GridError {
    GridError::Type { what, found: found.describe(), expected }
}

fn unknown(object: &'static str, key: &str) -> GridError {
    GridError::UnknownKey { object, key: shorten(key) }
}

fn duplicate(object: &'static str, key: &str) -> GridError {
    GridError::DuplicateKey { object, key: shorten(key) }
}
