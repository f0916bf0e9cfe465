//! One tile of a deltacells dataset: bytes to CSR and back. No I/O, no threads.
