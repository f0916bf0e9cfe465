use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, LargeStringArray};
use celltile::table::{Numeric, StringKind, Text, Values};

use crate::hdf5::{Dtype, NumberKind, NumberType};
use crate::tree::Array;

/// What becomes of a column of dates or durations, which a dataset has no type for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datetimes {
    /// It is refused.
    #[default]
    Refuse,
    /// ISO 8601 text.
    IsoString,
    /// Nanoseconds since 1970, or of the duration.
    Nanoseconds,
}

/// NumPy's "not a time".
const NAT: i64 = i64::MIN;

const DAY: i128 = 86_400 * SECOND;
const SECOND: i128 = 1_000_000_000;

/// NumPy's dates or durations: 64-bit integers in some unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moments {
    duration: bool,
    /// Nanoseconds of a unit; `None` for months and years, which differ in length.
    unit: Option<i128>,
    big_endian: bool,
}

impl Moments {
    /// What a type, or an attribute beside integers, says: h5py writes dates as opaque bytes tagged `NUMPY:<M8[ns]`,
    /// others integers marked `datetime64[ns]`.
    pub(super) fn of(dtype: &Dtype, encoding: Option<&str>) -> Option<Self> {
        let (text, big_endian) = match dtype {
            Dtype::Opaque { size: 8, tag } => {
                let text = tag.strip_prefix("NUMPY:")?;
                (text.trim_start_matches(['<', '>', '|', '=']), text.starts_with('>'))
            }
            Dtype::Number(NumberType { kind: NumberKind::Signed, size: 8, big_endian }) => {
                (encoding?, *big_endian)
            }
            _ => return None,
        };
        let (duration, rest) = if let Some(rest) = text.strip_prefix("M8").or(text.strip_prefix("datetime64"))
        {
            (false, rest)
        } else {
            (true, text.strip_prefix("m8").or(text.strip_prefix("timedelta64"))?)
        };
        let inner = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or("ns");
        let split = inner.find(|c: char| !c.is_ascii_digit()).unwrap_or(inner.len());
        let (many, name) = inner.split_at(split);
        let many: i128 = if many.is_empty() { 1 } else { many.parse().ok()? };
        let unit = match name {
            "ns" => Some(1),
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "s" => Some(SECOND),
            "m" => Some(60 * SECOND),
            "h" => Some(3_600 * SECOND),
            "D" => Some(DAY),
            "W" => Some(7 * DAY),
            _ => None,
        };
        Some(Self { duration, unit: unit.and_then(|unit| unit.checked_mul(many)), big_endian })
    }

    /// The values of a column.
    pub(super) fn read(self, dataset: &Array, how: Datetimes) -> Result<Values, String> {
        let word = if self.duration { "durations" } else { "dates" };
        if how == Datetimes::Refuse {
            return Err(format!(
                "{word}, which a dataset has no type for; obs-datetime=iso-string or obs-datetime=int64-ns converts them"
            ));
        }
        let unit = self.unit.ok_or_else(|| format!("{word} in a unit that is no number of nanoseconds"))?;
        let bytes = dataset.read_all().map_err(|error| error.to_string())?;
        let (values, _) = bytes.as_chunks::<8>();
        let load = if self.big_endian { i64::from_be_bytes } else { i64::from_le_bytes };
        let times = values.iter().map(|bytes| match load(*bytes) {
            NAT => None,
            value => Some(i128::from(value).saturating_mul(unit)),
        });
        if how == Datetimes::IsoString {
            let texts =
                times.map(|time| time.map(|time| if self.duration { span(time) } else { date(time) }));
            let array: LargeStringArray = texts.collect();
            let kind =
                if array.iter().any(|text| text.is_none()) { StringKind::Masked } else { StringKind::Object };
            return Ok(Values::Text(Text::new(array, kind)));
        }
        let whole: Option<Vec<Option<i64>>> =
            times.map(|time| time.map_or(Some(None), |time| i64::try_from(time).ok().map(Some))).collect();
        let whole = whole
            .ok_or_else(|| format!("{word} past 292 years from 1970, which nanoseconds do not reach"))?;
        let nullable = whole.iter().any(Option::is_none);
        let array: ArrayRef = Arc::new(Int64Array::from(whole));
        Numeric::new(array, nullable).map(Values::Numeric).map_err(|error| error.to_string())
    }
}

/// A fraction of a second with as many digits as it needs.
fn fraction(nanoseconds: i128) -> String {
    if nanoseconds == 0 {
        return String::new();
    }
    let digits = format!("{nanoseconds:09}");
    format!(".{}", digits.trim_end_matches('0'))
}

/// Nanoseconds since 1970 as a date and a time of day.
fn date(time: i128) -> String {
    let (day, rest) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    // Days to a date of the Gregorian calendar, in years that start in March, so that leap days come last.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    let seconds = rest / SECOND;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}{}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        fraction(rest % SECOND)
    )
}

/// Nanoseconds as a duration in days, hours, minutes and seconds.
fn span(time: i128) -> String {
    let sign = if time < 0 { "-" } else { "" };
    let time = time.abs();
    let seconds = time % DAY / SECOND;
    format!(
        "{sign}P{}DT{}H{}M{}{}S",
        time / DAY,
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        fraction(time % SECOND)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_dates_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00");
        assert_eq!(date(951_782_400 * SECOND), "2000-02-29T00:00:00");
        assert_eq!(date(-1), "1969-12-31T23:59:59.999999999");
        assert_eq!(date(1_704_164_645 * SECOND + 120_000_000), "2024-01-02T03:04:05.12");
        assert_eq!(date(-2_208_988_800 * SECOND), "1900-01-01T00:00:00");
        assert_eq!(date(-62_135_596_800 * SECOND), "0001-01-01T00:00:00");
        assert_eq!(span(DAY + 3_661 * SECOND), "P1DT1H1M1S");
        assert_eq!(span(-SECOND / 2), "-P0DT0H0M0.5S");
    }

    #[test]
    fn test_types_of_numpy() {
        let opaque = |tag: &str| Moments::of(&Dtype::Opaque { size: 8, tag: tag.into() }, None);
        let moments = |duration, unit| Some(Moments { duration, unit, big_endian: false });
        assert_eq!(opaque("NUMPY:<M8[ns]"), moments(false, Some(1)));
        assert_eq!(opaque("NUMPY:M8[10us]"), moments(false, Some(10_000)));
        assert_eq!(opaque("NUMPY:<m8[D]"), moments(true, Some(DAY)));
        assert_eq!(opaque("NUMPY:<M8[Y]"), moments(false, None));
        assert_eq!(opaque("other"), None);
        let whole = Dtype::Number(NumberType { kind: NumberKind::Signed, size: 8, big_endian: false });
        assert_eq!(Moments::of(&whole, Some("datetime64[s]")), moments(false, Some(SECOND)));
        assert_eq!(Moments::of(&whole, Some("array")), None);
        assert_eq!(Moments::of(&whole, None), None);
    }
}
