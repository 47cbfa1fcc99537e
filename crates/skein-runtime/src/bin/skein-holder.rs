//! The holder on its own, for the tests; in the product it is a mode of `skein`.

fn main() {}
