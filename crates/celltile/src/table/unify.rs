//! One schema for the tables of several inputs.
