//! An output that is an input would be cleared away before it is read.

use std::path::Path;
use std::sync::Arc;

use celltile::storage::{LocalStorage, Storage, open_storage};
use celltile_ingest::convert::{ConvertOptions, Stages, convert, convert_files};
use celltile_ingest::plan::{InputName, Plan};
use celltile_ingest::source::SourceOptions;

use crate::memory::{Input, Inputs, cells, names, options, reference};

fn refused<T>(result: celltile_ingest::Result<T>) {
    let error = result.err().unwrap().to_string();
    assert!(error.contains("is an input"), "{error}");
}

#[test]
fn test_an_output_that_is_an_input_in_it_or_around_it_is_refused_by_all_who_begin() {
    let list = [Input::random(1, 35, names("g", 20))];
    let inputs = Inputs::new(list.clone());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cells");
    let local = |path: &Path| -> Arc<dyn Storage> { Arc::new(LocalStorage::new(path)) };
    convert_files(&inputs.names(), local(&place), &inputs.source(), &options()).unwrap();
    let name = |path: String| InputName { path, name: "cells".into() };
    let shown = place.display().to_string();
    let mut spellings = vec![shown.clone(), format!("{shown}/"), format!("{shown}/../cells/.")];
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        spellings.push(link.display().to_string());
    }
    let source = SourceOptions::default();
    for resume in [false, true] {
        let mut over = ConvertOptions { resume, ..options() };
        over.writer.overwrite = !resume;
        for input in &spellings {
            for output in &spellings {
                refused(convert_files(&[name(input.clone())], local(Path::new(output)), &source, &over));
                let url = open_storage(&format!("file://{output}"), &over.output_remote).unwrap();
                refused(convert_files(&[name(input.clone())], url, &source, &over));
            }
            let plan = Plan::look(&[name(input.clone())], &source, &over).unwrap().plan().unwrap();
            refused(convert(&plan, local(&place), &over));
            refused(Stages::plan(&plan, &local(&place), &over));
            refused(convert(&plan, local(&place.join("new")), &over));
            refused(convert(&plan, local(folder.path()), &over));
            convert(&plan, local(&folder.path().join("cells2")), &over).unwrap();
        }
    }
    let dataset = celltile::Dataset::open(&place).unwrap();
    assert_eq!(cells(&dataset), reference(&list));
}
