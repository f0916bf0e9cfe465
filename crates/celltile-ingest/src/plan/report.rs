use std::fmt;

use serde_json::{Value, json};

use super::PlannedInput;

/// What was found about inputs before any cell is read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// One entry an input, in order.
    pub inputs: Vec<InputReport>,
    /// What is wrong with the inputs together.
    pub problems: Vec<String>,
    /// What should be known of the inputs together.
    pub notes: Vec<String>,
    /// Cells of all inputs.
    pub cells: u64,
    /// Genes of the dataset.
    pub genes: u64,
    /// What tells genes apart, and whether they were matched; empty for one input.
    pub joined_by: String,
    /// Columns of obs with their kinds, and in how many inputs they are.
    pub obs: Vec<ColumnReport>,
    /// Columns of var with their kinds.
    pub var: Vec<ColumnReport>,
}

/// A column of obs or var.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// Its kinds in the inputs: `category`, `numeric`, `bool`, `string`.
    pub kinds: Vec<String>,
    /// In how many inputs it is.
    pub inputs: u64,
}

/// What was found about one input.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct InputReport {
    /// Its path.
    pub path: String,
    /// What will be converted, if it can be.
    pub input: Option<PlannedInput>,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_fit(&self) -> bool {
        self.problems.is_empty() && self.inputs.iter().all(|input| input.problems.is_empty())
    }

    /// Everything that is wrong, with the inputs' paths where a message does not name them.
    pub fn all_problems(&self) -> Vec<String> {
        let of_input = |input: &InputReport| {
            let named = |problem: &String| {
                if problem.contains(&input.path) {
                    problem.clone()
                } else {
                    format!("{}: {problem}", input.path)
                }
            };
            input.problems.iter().map(named).collect::<Vec<_>>()
        };
        self.inputs.iter().flat_map(of_input).chain(self.problems.iter().cloned()).collect()
    }

    /// The JSON form.
    pub fn to_json(&self) -> Value {
        let columns = |columns: &[ColumnReport]| -> Vec<Value> {
            columns.iter().map(|c| json!({"name": c.name, "kinds": c.kinds, "inputs": c.inputs})).collect()
        };
        let inputs: Vec<Value> = self
            .inputs
            .iter()
            .map(|input| json!({"path": input.path, "converts": input.input, "problems": input.problems}))
            .collect();
        json!({
            "fit": self.is_fit(),
            "cells": self.cells,
            "genes": self.genes,
            "genes_joined_by": self.joined_by,
            "obs": columns(&self.obs),
            "var": columns(&self.var),
            "problems": self.problems,
            "notes": self.notes,
            "inputs": inputs,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.all_problems();
        write!(f, "{} of {} inputs cannot be converted as they are", self.unfit(), self.inputs.len())?;
        for problem in problems {
            write!(f, "\n{problem}")?;
        }
        Ok(())
    }
}

impl Report {
    /// Inputs with a problem; all, if the problem is of all together.
    fn unfit(&self) -> usize {
        let own = self.inputs.iter().filter(|input| !input.problems.is_empty()).count();
        if own == 0 { self.inputs.len() } else { own }
    }
}
