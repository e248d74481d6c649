//! `traceparent`: what is taken is written in one form, which is taken for the same.

use crate::lines;
use guerdon_core::Trace;

pub(crate) fn hold(data: &[u8]) {
    let Some([text]) = lines(data) else { return };
    let Some(trace) = Trace::parse(text) else { return };
    assert!(trace.trace_id != [0; 16] && trace.span_id != [0; 8], "{text} names nothing");
    let written = trace.to_string();
    assert_eq!((Trace::parse(&written), written.len()), (Some(trace), 55));
    assert_eq!(text.get(3..52), written.get(3..52), "the ids are as they were");
    assert!(!text.starts_with("00") || text.len() == 55, "{text} says more than its version has");
}
