//! Genes and columns of several inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use celltile::table::{Categorical, Categories, Codes, Column, Numeric, StringKind, Text};
use celltile_ingest::convert::ConvertOptions;
use celltile_ingest::plan::{DuplicateGenes, Join, Joining};

use crate::memory::{Input, Inputs, cells, column, names, open, options, reference, shown, text};

fn joined(join: Join) -> ConvertOptions {
    ConvertOptions { joining: Joining { join, ..Joining::default() }, ..options() }
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn words(values: &[Option<&str>]) -> Text {
    values.iter().copied().collect()
}

/// The values of a column of var by the name of their gene, `-` for missing ones.
fn var_of(storage: &celltile::storage::MemoryStorage, name: &str) -> Option<Vec<(String, String)>> {
    let dataset = open(storage);
    let names = dataset.var_names().unwrap().unwrap().into_names();
    let var = dataset.var().unwrap().unwrap();
    let mut found: Vec<_> = names.into_iter().zip(shown(var.column(name)?.values())).collect();
    found.sort();
    Some(found)
}

/// Problems of inputs that cannot be converted as they are.
fn problems(inputs: &Inputs, options: &ConvertOptions) -> String {
    let looked = inputs.look(options);
    assert!(!looked.report.is_fit() && looked.plan.is_none());
    looked.report.all_problems().join("\n")
}

#[test]
fn test_same_lists_join_by_position_repeats_and_all() {
    let genes = list(&["A", "B", "B"]);
    let cells = |n| vec![vec![(1, n)], vec![(2, n + 1)]];
    let inputs = Inputs::new([Input::of(genes.clone(), cells(5)), Input::of(genes, cells(7))]);
    let (storage, summary) = inputs.converted(&options());
    assert_eq!((summary.cells, summary.genes, summary.sum), (4, 3, 26));
    let dataset = open(&storage);
    let order = dataset.gene_order().unwrap().unwrap();
    let csr = dataset.rows(0..4).unwrap();
    let columns: Vec<i32> = csr.genes.iter().map(|gene| order.columns()[*gene as usize]).collect();
    assert_eq!((columns, csr.counts), (vec![1, 2, 1, 2], vec![5, 6, 7, 8]));
    assert_eq!(column(&dataset, "source"), ["in0", "in0", "in1", "in1"]);
}

#[test]
fn test_exact_takes_another_order_and_tells_how_lists_differ() {
    let a = Input::random(1, 25, list(&["A", "B", "C", "D"]));
    let b = Input::random(2, 14, list(&["D", "A", "C", "B"]));
    let inputs = Inputs::new([a.clone(), b.clone()]);
    let (storage, _) = inputs.converted(&options());
    assert_eq!(cells(&open(&storage)), reference(&[a.clone(), b]));

    let c = Input::random(3, 3, list(&["A", "B", "X", "Y"]));
    let told = problems(&Inputs::new([a, c]), &options());
    for part in [
        "memory/1",
        "memory/0",
        "does not have 2 (\"C\", \"D\")",
        "has besides 2 (\"X\", \"Y\")",
        "--join inner",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn test_inner_and_outer_joins_are_those_of_sets() {
    let lists = [list(&["A", "B", "C"]), list(&["C", "X", "A"]), list(&["A", "Y", "C", "B"])];
    let inputs: Vec<Input> = lists.into_iter().zip(5..).map(|(l, seed)| Input::random(seed, 17, l)).collect();
    let all = reference(&inputs);
    let (storage, summary) = Inputs::new(inputs.clone()).converted(&joined(Join::Outer));
    assert_eq!((summary.genes, cells(&open(&storage))), (5, all.clone()));
    assert_eq!(summary.nonzeros, inputs.iter().map(Input::nonzeros).sum::<u64>());

    let (storage, summary) = Inputs::new(inputs.clone()).converted(&joined(Join::Inner));
    let shared = |cell: &BTreeMap<String, i64>| {
        cell.iter().filter(|(gene, _)| *gene == "A" || *gene == "C").map(|(g, c)| (g.clone(), *c)).collect()
    };
    let kept: Vec<BTreeMap<String, i64>> = all.iter().map(shared).collect();
    assert_eq!((summary.genes, cells(&open(&storage))), (2, kept));
    // What was read is told apart from what was written.
    for (summary, input) in summary.inputs.iter().zip(&inputs) {
        assert_eq!((summary.read_nonzeros, summary.read_sum), (input.nonzeros(), input.sum()));
    }
    let none = Inputs::new([Input::random(1, 2, list(&["A"])), Input::random(2, 2, list(&["B"]))]);
    assert!(problems(&none, &joined(Join::Inner)).contains("no gene is left"));
}

#[test]
fn test_repeated_genes_that_must_be_matched() {
    let a = Input::of(list(&["A", "B", "B"]), vec![vec![(0, 1), (1, 2), (2, 3)]]);
    let b = Input::of(list(&["B", "A", "B"]), vec![vec![(0, 10), (1, 20), (2, 30)]]);
    let inputs = Inputs::new([a, b]);
    let told = problems(&inputs, &options());
    assert!(told.contains("repeated 1 (\"B\")") && told.contains("--duplicate-genes"), "{told}");
    let with = |duplicate_genes| ConvertOptions {
        joining: Joining { duplicate_genes, ..Joining::default() },
        ..options()
    };
    let map =
        |pairs: &[(&str, i64)]| pairs.iter().map(|(g, c)| ((*g).to_owned(), *c)).collect::<BTreeMap<_, _>>();
    let (storage, summary) = inputs.converted(&with(DuplicateGenes::Sum));
    assert_eq!(cells(&open(&storage)), [map(&[("A", 1), ("B", 5)]), map(&[("A", 20), ("B", 40)])]);
    assert_eq!((summary.nonzeros, summary.sum), (4, 66));
    let (storage, _) = inputs.converted(&with(DuplicateGenes::Suffix));
    let expected = [map(&[("A", 1), ("B", 2), ("B-1", 3)]), map(&[("A", 20), ("B", 10), ("B-1", 30)])];
    assert_eq!(cells(&open(&storage)), expected);
}

#[test]
fn test_hundreds_of_one_name_are_suffixed() {
    let many = vec!["G".to_owned(); 300];
    let mut other = many.clone();
    other.push("H".to_owned());
    let inputs = Inputs::new([Input::random(1, 12, many), Input::random(2, 12, other)]);
    let joining =
        Joining { duplicate_genes: DuplicateGenes::Suffix, join: Join::Outer, ..Joining::default() };
    let (storage, summary) = inputs.converted(&ConvertOptions { joining, ..options() });
    assert_eq!(summary.genes, 301);
    let names = open(&storage).var_names().unwrap().unwrap();
    assert!(names.names().iter().any(|name| name == "G-299"));
}

#[test]
fn test_a_suffix_that_makes_the_name_of_another_gene_is_refused() {
    let a = Input::random(1, 5, list(&["A", "A", "B"]));
    let b = Input::random(2, 5, list(&["A", "A-1", "B"]));
    let joining =
        Joining { duplicate_genes: DuplicateGenes::Suffix, join: Join::Outer, ..Joining::default() };
    let options = ConvertOptions { joining, ..options() };
    for inputs in [[a.clone(), b.clone()], [b, a]] {
        let told = problems(&Inputs::new(inputs), &options);
        assert!(told.contains("by a suffix") && told.contains("both 1 (\"A-1\")"), "{told}");
    }
    // Within one input the next free number is taken.
    let c = Input::random(3, 5, list(&["A", "A-1", "A"]));
    let d = Input::random(4, 5, list(&["A-1", "A", "A"]));
    let (storage, _) = Inputs::new([c, d]).converted(&options);
    let mut names = open(&storage).var_names().unwrap().unwrap().into_names();
    names.sort();
    assert_eq!(names, ["A", "A-1", "A-2"]);
}

#[test]
fn test_identifiers_or_a_column_of_var_tell_genes_apart() {
    let mut a = Input::of(list(&["N", "N"]), vec![vec![(0, 1), (1, 2)]]);
    let mut b = Input::of(list(&["M", "N"]), vec![vec![(0, 3), (1, 4)]]);
    a.ids = Some(list(&["E1", "E2"]));
    b.ids = Some(list(&["E2", "E1"]));
    let a = a.with_var(Column::new("key", text(list(&["k1", "k2"]))));
    let b = b.with_var(Column::new("key", text(list(&["k1", "k2"]))));
    let inputs = Inputs::new([a.clone(), b.clone()]);
    let by_column = |storage| {
        let dataset = open(storage);
        let order = dataset.gene_order().unwrap().unwrap();
        let csr = dataset.rows(0..2).unwrap();
        let mut found: Vec<(i32, i32)> =
            csr.genes.iter().map(|g| order.columns()[*g as usize]).zip(csr.counts).collect();
        found[0..2].sort_unstable();
        found[2..4].sort_unstable();
        found
    };
    let (storage, _) = inputs.converted(&options());
    assert_eq!(by_column(&storage), [(0, 1), (1, 2), (0, 4), (1, 3)]);
    let joining = Joining { var_key: Some("key".into()), ..Joining::default() };
    let (storage, _) = inputs.converted(&ConvertOptions { joining: joining.clone(), ..options() });
    assert_eq!(by_column(&storage), [(0, 1), (1, 2), (0, 3), (1, 4)]);
    let joining = Joining { var_key: Some("nope".into()), ..joining };
    let told = problems(&inputs, &ConvertOptions { joining, ..options() });
    assert!(told.contains("no column \"nope\"") && told.contains("it has: key"), "{told}");
    // One input without identifiers: names decide, and are repeated here.
    let mut b = b;
    b.ids = None;
    assert!(problems(&Inputs::new([a, b]), &options()).contains("by names"));
}

#[test]
fn test_genes_without_a_value_of_the_key_are_no_gene_that_both_inputs_have() {
    let a = Input::random(1, 5, list(&["A", "B", "C"]))
        .with_var(Column::new("key", words(&[Some("k1"), None, Some("k3")])));
    let b = Input::random(2, 5, list(&["D", "C", "A"]))
        .with_var(Column::new("key", words(&[None, Some("k3"), Some("k1")])));
    for join in [Join::Exact, Join::Inner, Join::Outer] {
        let joining = Joining { join, var_key: Some("key".into()), ..Joining::default() };
        let told = problems(&Inputs::new([a.clone(), b.clone()]), &ConvertOptions { joining, ..options() });
        for part in ["memory/0", "memory/1", "by key", "rows of var", "(\"1\")", "(\"0\")", "--var-key"] {
            assert!(told.contains(part), "{told}");
        }
    }
    // The category 1 is not the text "1".
    let numbers = Categories::from_array(&arrow_array::Int64Array::from(vec![1, 2, 3]), StringKind::Object);
    let codes = Codes::collect([0, 1, 2], 3).unwrap();
    let c = Input::random(1, 5, list(&["A", "B", "C"]))
        .with_var(Column::new("key", Categorical::new(codes, numbers.unwrap(), false).unwrap()));
    let joining = Joining { var_key: Some("key".into()), ..Joining::default() };
    let told = problems(&Inputs::new([c.clone(), c]), &ConvertOptions { joining, ..options() });
    assert!(told.contains("var[\"key\"] (--var-key) holds no text"), "{told}");
}

#[test]
fn test_a_sum_of_joined_genes_that_is_too_large_names_them_as_the_input_does() {
    let a = Input::of(list(&["A", "B"]), vec![vec![(0, 1)]]);
    let most = i32::MAX.unsigned_abs();
    let b = Input::of(list(&["B", "A", "B"]), vec![vec![(1, 4)], vec![(0, most), (1, 3), (2, 1)]]);
    let joining = Joining { duplicate_genes: DuplicateGenes::Sum, ..Joining::default() };
    let options = ConvertOptions { joining, ..options() };
    let storage = celltile::storage::MemoryStorage::new();
    let said = Inputs::new([a, b]).convert(&storage, &options).unwrap_err().to_string();
    for part in ["memory/1", "cell 1 (cell1)", "gene 0 (B)", "the sum of 2147483647, 1"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn test_columns_of_var_that_all_inputs_agree_on_stay() {
    let a = Input::random(1, 9, list(&["A", "B"]))
        .with_var(Column::new("same", words(&[Some("a"), Some("b")])))
        .with_var(Column::new("coded", category(&[0, 1], &["a", "b"])))
        .with_var(Column::new("only", words(&[Some("x"), Some("y")])))
        .with_var(Column::new("other", words(&[Some("1"), Some("2")])))
        .with_var(Column::new("later", words(&[Some("p"), Some("q")])));
    let b = Input::random(2, 9, list(&["B", "C"]))
        .with_var(Column::new("same", words(&[Some("b"), Some("c")])))
        .with_var(Column::new("coded", category(&[1, 0], &["c", "b"])))
        .with_var(Column::new("other", words(&[Some("3"), Some("4")])))
        .with_var(Column::new("later", words(&[Some("q"), Some("r")])))
        .with_var(Column::new("new", words(&[Some("u"), Some("v")])));
    // It agrees with the first input, but not with what the second says of a gene that the first does not have.
    let c = Input::random(3, 9, list(&["C", "D"]))
        .with_var(Column::new("same", words(&[Some("c"), None])))
        .with_var(Column::new("coded", words(&[Some("c"), Some("d")])))
        .with_var(Column::new("other", words(&[Some("4"), Some("5")])))
        .with_var(Column::new("later", words(&[Some("s"), Some("t")])));
    let inputs = Inputs::new([a, b, c]);
    let (storage, summary) = inputs.converted(&joined(Join::Outer));
    let pairs = |values: [&str; 4]| {
        let genes = ["A", "B", "C", "D"];
        Some(genes.iter().zip(values).map(|(g, v)| ((*g).to_owned(), v.to_owned())).collect::<Vec<_>>())
    };
    assert_eq!(var_of(&storage, "same"), pairs(["a", "b", "c", "-"]));
    for gone in ["only", "new", "other", "later"] {
        assert_eq!(var_of(&storage, gone), None);
        let note =
            summary.notes.iter().find(|note| note.starts_with(&format!("var[\"{gone}\"] is left out")));
        let note = note.unwrap_or_else(|| panic!("{gone}: {:?}", summary.notes));
        let (one, two) = match gone {
            "only" => ("memory/1", "does not have it"),
            "new" => ("memory/0", "does not have it"),
            "other" => ("memory/0", "memory/1"),
            _ => ("memory/1", "memory/2"),
        };
        assert!(note.contains(one) && note.contains(two), "{note}");
    }
    let dataset = open(&storage);
    let var = dataset.var().unwrap().unwrap();
    let names: Vec<_> = var.columns().iter().map(Column::name).collect();
    assert_eq!(names, ["same", "coded"]);
    assert_eq!(var.index().unwrap().values().len(), 4);
}

#[test]
fn test_other_names_of_one_identifier_are_told() {
    let mut a = Input::of(list(&["N", "M"]), vec![vec![(0, 1), (1, 2)]]);
    let mut b = Input::of(list(&["M", "O"]), vec![vec![(0, 3), (1, 4)]]);
    a.ids = Some(list(&["E1", "E2"]));
    b.ids = Some(list(&["E2", "E1"]));
    let (storage, summary) = Inputs::new([a.clone(), b.clone()]).converted(&options());
    let told = |summary: &celltile_ingest::convert::Summary| summary.notes.join("; ");
    let note = "1 genes go by another name in some inputs than in the first one that has them, whose names stay \
                (\"E1\" is \"N\", and \"O\" in memory/1)";
    assert!(told(&summary).contains(note), "{}", told(&summary));
    let mut names = open(&storage).var_names().unwrap().unwrap().into_names();
    names.sort();
    assert_eq!(names, ["M", "N"]);
    // The same with the same list.
    b.ids.clone_from(&a.ids);
    let (_, summary) = Inputs::new([a, b]).converted(&options());
    assert!(told(&summary).contains("2 genes go by another name"), "{}", told(&summary));
}

fn category(codes: &[i64], list: &[&str]) -> Categorical {
    Categorical::new(
        Codes::collect(codes.iter().copied(), list.len()).unwrap(),
        Categories::from_text(list).unwrap(),
        false,
    )
    .unwrap()
}

#[test]
fn test_columns_of_obs_become_one() {
    let genes = names("g", 4);
    let ints =
        |values: Vec<i32>| Numeric::new(Arc::new(arrow_array::Int32Array::from(values)), false).unwrap();
    let floats =
        |values: Vec<f64>| Numeric::new(Arc::new(arrow_array::Float64Array::from(values)), false).unwrap();
    let a = Input::random(1, 2, genes.clone())
        .with_obs(Column::new("kind", category(&[0, 1], &["a", "b"])))
        .with_obs(Column::new("size", ints(vec![1, 2])))
        .with_obs(Column::new("only", ints(vec![8, 9])));
    let b = Input::random(2, 2, genes.clone())
        .with_obs(Column::new("kind", category(&[1, 0], &["b", "c"])))
        .with_obs(Column::new("size", floats(vec![0.5, 3.0])));
    let c = Input::random(3, 1, genes)
        .with_obs(Column::new("kind", ["d"].iter().map(|v| Some(*v)).collect::<Text>()))
        .with_obs(Column::new("size", ints(vec![7])));
    let inputs = Inputs::new([a.clone(), b, c]);
    let (storage, _) = inputs.converted(&options());
    let dataset = open(&storage);
    assert_eq!(column(&dataset, "kind"), ["a", "b", "c", "b", "d"]);
    assert_eq!(column(&dataset, "size"), ["1", "2", "0.5", "3", "7"]);
    assert_eq!(column(&dataset, "only"), ["8", "9", "-", "-", "-"]);
    assert_eq!(column(&dataset, "source"), ["in0", "in0", "in1", "in1", "in2"]);

    let words = ["x", "y"].iter().map(|v| Some(*v)).collect::<Text>();
    let d = Input::random(4, 2, names("g", 4))
        .with_obs(Column::new("size", words.clone()))
        .with_obs(Column::new("only", words));
    let told = problems(&Inputs::new([a, d]), &options());
    for part in ["\"size\"", "\"only\"", "memory/0", "memory/1", "text", "numbers (int32)"] {
        assert!(told.contains(part), "{told}");
    }
}

/// C13: the codes of the union are as wide as it asks for, whatever each input had.
#[test]
fn test_vocabularies_that_outgrow_their_codes_when_they_are_united() {
    for (first, second) in [(100, 100), (128, 1), (20_000, 12_768), (32_768, 1)] {
        let input = |seed: u64, from: i64, count: i64| {
            let list: Vec<String> = (from..from + count).map(|at| format!("v{at}")).collect();
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let values = category(&[0, -1, count - 1], &list);
            Input::random(seed, 3, names("g", 4)).with_obs(Column::new("kind", values))
        };
        let inputs = Inputs::new([input(1, 0, first), input(2, first, second)]);
        let (storage, _) = inputs.converted(&options());
        let last = |count: i64| format!("v{}", count - 1);
        let expected =
            ["v0".into(), "-".into(), last(first), format!("v{first}"), "-".into(), last(first + second)];
        assert_eq!(column(&open(&storage), "kind"), expected, "{first} and {second}");
    }
}

#[test]
fn test_names_of_added_columns() {
    let genes = names("g", 4);
    let taken = ["x"; 3].iter().map(|v| Some(*v)).collect::<Text>();
    let a = Input::random(1, 3, genes.clone()).with_obs(Column::new("source", taken));
    let inputs = Inputs::new([a, Input::random(2, 2, genes)]);
    let (storage, _) = inputs.converted(&options());
    assert_eq!(column(&open(&storage), "source_1"), ["in0", "in0", "in0", "in1", "in1"]);
    let with = |name: &str| ConvertOptions {
        joining: Joining { source_column: Some(name.into()), ..Joining::default() },
        ..options()
    };
    let (storage, _) = inputs.converted(&with("file"));
    assert_eq!(column(&open(&storage), "file")[4], "in1");
    let (storage, _) = inputs.converted(&with(""));
    assert!(open(&storage).obs_reader().unwrap().unwrap().schema().position("source_1").is_none());
}

#[test]
fn test_all_that_is_wrong_is_told_at_once() {
    let good = Input::random(1, 3, names("g", 4));
    let mut bad = Input::random(2, 3, names("h", 4));
    bad.obs = bad.obs.slice(0, 2).unwrap();
    let inputs = Inputs::new([good.clone(), bad, Input::random(3, 3, names("i", 4)), good]);
    let mut all = inputs.names();
    all.push(celltile_ingest::plan::InputName { path: "memory/9".into(), name: "nine".into() });
    let looked = celltile_ingest::plan::Plan::look(&all, &inputs.source(), &options()).unwrap();
    let wrong: Vec<bool> = looked.report.inputs.iter().map(|input| !input.problems.is_empty()).collect();
    assert_eq!(wrong, [false, true, true, false, true]);
    let error = looked.plan().unwrap_err().to_string();
    assert!(error.starts_with("3 of 5 inputs") && error.contains("memory/9: is not there"), "{error}");
    let one = Inputs::new([{
        let mut bad = Input::random(2, 3, names("h", 4));
        bad.obs = bad.obs.slice(0, 2).unwrap();
        bad
    }]);
    assert!(matches!(one.look(&options()).plan(), Err(celltile_ingest::Error::Length { .. })));
}

#[test]
fn test_repeated_cell_names_are_noted_and_let_through() {
    let genes = names("g", 4);
    let inputs = Inputs::new([Input::random(1, 3, genes.clone()), Input::random(2, 2, genes)]);
    let (storage, summary) = inputs.converted(&options());
    assert!(summary.notes.iter().any(|note| note.starts_with("2 cell names")), "{:?}", summary.notes);
    assert_eq!(column(&open(&storage), "_index"), ["cell0", "cell1", "cell2", "cell0", "cell1"]);
}

#[test]
fn test_totals_of_every_input_are_in_the_metadata() {
    let genes = names("g", 9);
    let list: Vec<Input> = (1..4).map(|n| Input::random(n, 8 * n as usize, genes.clone())).collect();
    let (storage, summary) = Inputs::new(list.clone()).converted(&options());
    let metadata = open(&storage).manifest().metadata();
    let sources = metadata["celltile"]["sources"].as_array().unwrap();
    for ((source, input), summary) in sources.iter().zip(&list).zip(&summary.inputs) {
        assert_eq!(source["nonzeros"], input.nonzeros());
        assert_eq!(source["sum"], input.sum());
        assert_eq!((summary.nonzeros, summary.sum), (input.nonzeros(), input.sum()));
    }
    assert_eq!(sources[2]["first_cell"], 24);
}

#[test]
fn test_verification_holds_the_totals_of_every_input_against_the_tiles() {
    use celltile::storage::Storage;
    use celltile::verify::{Level, VerifyOptions, verify};
    let genes = names("g", 9);
    let inputs = Inputs::new([Input::random(1, 15, genes.clone()), Input::random(2, 22, genes)]);
    for shuffle in [None, Some(2)] {
        let joining = Joining { shuffle, ..Joining::default() };
        let (storage, _) = inputs.converted(&ConvertOptions { joining, ..options() });
        let faults = || {
            let options = VerifyOptions::default().level(Level::Strict);
            verify(&storage, &options, &|_| {}).unwrap().faults
        };
        assert_eq!(faults(), []);
        let mut manifest = open(&storage).manifest().clone();
        let mut metadata = manifest.metadata();
        let sum = &mut metadata["celltile"]["sources"][1]["sum"];
        *sum = (sum.as_u64().unwrap() + 1).into();
        manifest.set_metadata(metadata);
        storage.write("manifest.json", manifest.to_json().unwrap().as_bytes()).unwrap();
        let faults = faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().contains("input \"in1\""), "{faults:?}");
    }
}
