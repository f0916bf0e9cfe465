//! `celltile rows`.

use std::ops::Range;

use celltile::Csr;

use crate::support::{dataset, run_on, simulation};

/// The nonzeros of some cells: cell, gene, count.
fn entries(cells: &Csr, range: Range<usize>) -> Vec<(usize, i32, i32)> {
    let view = cells.view().unwrap();
    let rows = view.iter().enumerate().skip(range.start).take(range.len());
    rows.flat_map(|(cell, (genes, counts))| {
        genes.iter().zip(counts).map(move |(&gene, &count)| (cell, gene, count)).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn test_csv_has_every_nonzero() {
    let (_folder, path, cells) = dataset();
    let names: Vec<String> = simulation(250).genes().into_iter().map(|gene| gene.name).collect();
    for (words, range) in [("95:210", 95..210), ("249", 249..250), ("248:", 248..250), ("7:7", 7..7)] {
        let out = run_on(&path, &format!("rows {{}} {words} --format csv")).ok().out;
        let mut lines = out.lines();
        assert_eq!(lines.next(), Some("cell,gene_index,gene,count"));
        let expected = entries(&cells, range);
        let expected: Vec<String> = expected
            .iter()
            .map(|(cell, gene, count)| format!("{cell},{gene},{},{count}", names[*gene as usize]))
            .collect();
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{words}");
    }
}

#[test]
fn test_mtx_is_cells_by_genes() {
    let (_folder, path, cells) = dataset();
    let out = run_on(&path, "rows {} 95:105 --format mtx").ok().out;
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("%%MatrixMarket matrix coordinate integer general"));
    assert!(lines.next().unwrap().starts_with('%'));
    let expected = entries(&cells, 95..105);
    assert_eq!(lines.next(), Some(format!("10 2000 {}", expected.len()).as_str()));
    let expected: Vec<String> =
        expected.iter().map(|(cell, gene, count)| format!("{} {} {count}", cell - 94, gene + 1)).collect();
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn test_table_has_a_line_a_cell() {
    let (_folder, path, cells) = dataset();
    let out = run_on(&path, "rows {} 99:102").ok().out;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["cell", "nonzeros", "total"]);
    for (line, cell) in lines[1..].iter().zip(99..102) {
        let mut expected = entries(&cells, cell..cell + 1);
        expected.sort_by_key(|&(_, gene, count)| (-count, gene));
        let total: i32 = expected.iter().map(|x| x.2).sum();
        assert_eq!(line[..3], [cell.to_string(), expected.len().to_string(), total.to_string()]);
        assert_eq!(line[4].trim_end_matches(','), expected[0].2.to_string());
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn test_cells_that_are_not_there() {
    let (_folder, path, _) = dataset();
    for words in ["250", "200:251", "300:"] {
        let run = run_on(&path, &format!("rows {{}} {words} --format csv")).fails(1, "there are 250");
        assert!(run.out.is_empty());
    }
}

#[test]
fn test_genes_by_name_in_the_order_asked_for() {
    let (_folder, path, cells) = dataset();
    let names: Vec<String> = simulation(250).genes().into_iter().map(|gene| gene.name).collect();
    let unique = |name: &&String| names.iter().filter(|other| other == name).count() == 1;
    let asked: Vec<&String> = names.iter().filter(unique).take(4).collect();
    let asked = [asked[2], asked[0], asked[3]];
    let list = asked.map(String::as_str).join(",");
    let place = |gene: i32| asked.iter().position(|name| **name == names[gene as usize]);
    let mut expected: Vec<(usize, usize, i32, i32)> = entries(&cells, 0..60)
        .into_iter()
        .filter_map(|(cell, gene, count)| place(gene).map(|place| (cell, place, gene, count)))
        .collect();
    expected.sort_unstable();
    assert!(!expected.is_empty());
    let out = run_on(&path, &format!("rows {{}} 0:60 --format csv --genes {list}")).ok().out;
    let lines: Vec<String> = expected
        .iter()
        .map(|(cell, _, gene, count)| format!("{cell},{gene},{},{count}", names[*gene as usize]))
        .collect();
    assert_eq!(out.lines().skip(1).collect::<Vec<_>>(), lines);
    let out = run_on(&path, &format!("rows {{}} 0:60 --format mtx --genes {list}")).ok().out;
    let lines: Vec<String> = expected
        .iter()
        .map(|(cell, place, _, count)| format!("{} {} {count}", cell + 1, place + 1))
        .collect();
    assert_eq!(out.lines().nth(2), Some(format!("60 3 {}", expected.len()).as_str()));
    assert_eq!(out.lines().skip(3).collect::<Vec<_>>(), lines);
}

#[test]
fn test_genes_that_are_not_there_or_asked_for_twice() {
    let (_folder, path, _) = dataset();
    let name = simulation(250).genes().into_iter().next().unwrap().name;
    run_on(&path, &format!("rows {{}} 0:1 --genes {name},no_such_gene,nor_this"))
        .fails(1, "no genes of these names: no_such_gene, nor_this");
    run_on(&path, &format!("rows {{}} 0:1 --genes {name},{name}")).fails(2, "asked for twice");
}
