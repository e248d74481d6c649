//! The outside, each service behind one of the engine's ports.
//!
//! The engine has no port yet: brokers, providers and outside services arrive with the parts that need them, one
//! module each, named after what it speaks to.
