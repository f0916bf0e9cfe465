//! The URL of a bucket, taken apart.

use std::fmt;

use url::Url;

use super::super::Place;
use crate::error::{Error, Result};

/// Which kind of bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    S3,
    Gcs,
    Azure,
    Http,
}

/// The URL of a prefix in a bucket, taken apart.
#[derive(Clone)]
pub(super) struct Location {
    pub(super) kind: Kind,
    /// What a builder is given: the bucket, or `az://container@account`, or the whole URL of a server.
    pub(super) bucket: String,
    /// The prefix within the bucket, without slashes at its ends; empty for a server, whose URL holds it.
    pub(super) prefix: String,
    /// The URL as it may be shown: without a password or query, without a slash at its end.
    shown: String,
    /// What must never be shown.
    secrets: Vec<String>,
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Location {
    /// Takes a URL apart.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = |expected: &str| Error::Argument {
            what: "URL",
            found: format!("{:?}", showable(text)),
            expected: expected.to_owned(),
        };
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("s3://, gs://, az://, http:// or https://"))?;
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Kind::S3,
            "gs" | "gcs" => Kind::Gcs,
            "az" | "azure" | "abfs" | "abfss" => Kind::Azure,
            "http" | "https" => return Self::server(text).map_err(wrong),
            _ => return Err(wrong("s3://, gs://, az://, http:// or https://")),
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if bucket.is_empty() {
            return Err(wrong("a bucket's name after the scheme"));
        }
        if bucket.contains([':', '?', '#']) {
            return Err(wrong(
                "a bucket's name alone after the scheme: an endpoint goes into the environment",
            ));
        }
        if !prefix.is_empty() {
            super::super::check_key(prefix)?;
        }
        let shown = format!("{scheme}://{rest}").trim_end_matches('/').to_owned();
        let bucket = if kind == Kind::Azure { format!("az://{bucket}") } else { bucket.to_owned() };
        Ok(Self { kind, bucket, prefix: prefix.to_owned(), shown, secrets: Vec::new() })
    }

    fn server(text: &str) -> Result<Self, &'static str> {
        let mut url = Url::parse(text).map_err(|_| "an HTTP URL")?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err("a host's name after the scheme");
        }
        if url.password().is_some() || !url.username().is_empty() {
            return Err("a URL without user name and password");
        }
        url.set_fragment(None);
        // Keys are appended to the path, so it must not end in a slash already.
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        let secrets = url.query().filter(|q| !q.is_empty()).map(str::to_owned).into_iter().collect();
        let bucket = url.to_string();
        url.set_query(None);
        let shown = url.to_string().trim_end_matches('/').to_owned();
        Ok(Self { kind: Kind::Http, bucket, prefix: String::new(), shown, secrets })
    }

    /// The URL of an object, as it may be shown.
    pub(super) fn show(&self, key: &str) -> String {
        if key.is_empty() { self.shown.clone() } else { format!("{}/{key}", self.shown) }
    }

    /// What can be compared with that of other URLs.
    pub(super) fn place(&self) -> Place {
        if self.kind != Kind::Http {
            return Place::in_bucket(format!("{:?} {}", self.kind, self.bucket), &self.prefix);
        }
        match Url::parse(&self.bucket) {
            Ok(url) => Place::in_bucket(url.origin().ascii_serialization(), url.path()),
            Err(_) => Place::in_bucket(self.bucket.clone(), ""),
        }
    }

    /// The key within the bucket.
    pub(super) fn full_key(&self, key: &str) -> String {
        match (self.prefix.is_empty(), key.is_empty()) {
            (true, _) => key.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}/{key}", self.prefix),
        }
    }

    /// A text of somebody else's, made fit to be shown.
    pub(super) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "..."))
    }
}

/// The part of a wrong URL that holds no secret.
fn showable(text: &str) -> &str {
    let start = text.split('?').next().unwrap_or_default();
    // What is before an @ may be a password.
    if start.contains('@') { start.split("://").next().unwrap_or_default() } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_urls_are_taken_apart() {
        let s3 = Location::parse("s3://bucket/a/b c/").unwrap();
        assert_eq!((s3.kind, s3.bucket.as_str(), s3.prefix.as_str()), (Kind::S3, "bucket", "a/b c"));
        assert_eq!(s3.show("manifest.json"), "s3://bucket/a/b c/manifest.json");
        assert_eq!(s3.full_key("manifest.json"), "a/b c/manifest.json");
        assert_eq!(Location::parse("gs://bucket").unwrap().full_key("x"), "x");
        assert_eq!(Location::parse("az://box@account/p").unwrap().bucket, "az://box@account");
        let http = Location::parse("https://host:80/data/x/?token=secret").unwrap();
        assert_eq!(http.show("m"), "https://host:80/data/x/m");
        assert_eq!(http.redact("GET https://host/x?token=secret failed"), "GET https://host/x?... failed");
    }

    #[test]
    fn test_places_are_the_same_whatever_the_spelling() {
        let overlap = |a: &str, b: &str| {
            Location::parse(a).unwrap().place().overlaps(&Location::parse(b).unwrap().place())
        };
        for (a, b) in [
            ("s3://b/a", "s3://b/a/"),
            ("s3://b/a", "s3a://b/a/x"),
            ("s3://b", "S3://b/a"),
            ("http://Host/a?t=1", "http://host:80/a/x"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [("s3://b/a", "gs://b/a"), ("s3://b/a", "s3://c/a"), ("http://h/a", "https://h/a")] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }

    #[test]
    fn test_wrong_urls_say_what_is_expected() {
        for url in
            ["s3://", "s3:///x", "ftp://x/y", "s3://b/../c", "s3://b/a//c", "http://", "s3://host:9000/b"]
        {
            assert!(Location::parse(url).is_err(), "{url}");
        }
        let error = Location::parse("https://me:secret@host/x").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
