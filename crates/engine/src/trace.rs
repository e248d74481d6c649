//! What happened when, and because of what: spans, handed to whoever keeps them.
//!
//! A call's place in its trace is known to everything that is done for it. Where the work goes on later, by itself, the
//! place is in the row: in a message, an allocation, a claim.

use crate::clock::machine_nanos;
use crate::entropy::Entropy;
use guerdon_core::Trace;
use guerdon_core::trace::Share;
use guerdon_store::Stopwatch;
use std::sync::Arc;

tokio::task_local! {
    static CURRENT: Trace;
}

/// Where what is being done just now belongs, if anybody follows it.
pub fn current() -> Option<Trace> {
    CURRENT.try_with(|trace| *trace).ok()
}

/// Does something as a part of a trace.
pub async fn within<F: Future>(trace: Option<Trace>, work: F) -> F::Output {
    match trace {
        Some(trace) => CURRENT.scope(trace, work).await,
        None => work.await,
    }
}

/// Who keeps spans. To hand one over never waits: what there is no room for is lost, and counted.
pub trait SpanSink: Send + Sync + 'static {
    fn take(&self, span: Span);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Something that the house does by itself.
    Internal,
    /// A call that was answered.
    Server,
    /// A call that was made.
    Client,
    /// A message that was published.
    Producer,
    /// A message that was handled.
    Consumer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// Something that happened, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace: Trace,
    /// The span that caused it.
    pub parent: Option<[u8; 8]>,
    pub name: String,
    pub kind: SpanKind,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Makes spans, where there is anybody to keep them.
#[derive(Clone, Default)]
pub struct Traces(Option<Kept>);

#[derive(Clone)]
struct Kept {
    sink: Arc<dyn SpanSink>,
    share: Share,
}

impl Traces {
    pub fn kept_by(sink: Arc<dyn SpanSink>, share: Share) -> Self {
        Self(Some(Kept { sink, share }))
    }

    /// A call begins, as a part of the caller's trace if it names one, or of a new one. None where nobody keeps it.
    pub fn of_call(
        &self,
        name: impl FnOnce() -> String,
        caller: impl FnOnce() -> Option<Trace>,
    ) -> Option<OpenSpan> {
        let kept = self.0.as_ref()?;
        let caller = caller();
        let trace =
            caller.unwrap_or_else(|| Trace { trace_id: Entropy.bytes(), span_id: [0; 8], sampled: true });
        let wanted = trace.sampled && trace.is_among(kept.share);
        wanted.then(|| open(kept, trace, caller.map(|caller| caller.span_id), name(), SpanKind::Server))
    }

    /// Something begins that belongs in this trace.
    pub fn within(
        &self,
        trace: Option<Trace>,
        kind: SpanKind,
        name: impl FnOnce() -> String,
    ) -> Option<OpenSpan> {
        let (kept, trace) = (self.0.as_ref()?, trace.filter(|trace| trace.sampled)?);
        Some(open(kept, trace, Some(trace.span_id), name(), kind))
    }
}

fn open(kept: &Kept, trace: Trace, parent: Option<[u8; 8]>, name: String, kind: SpanKind) -> OpenSpan {
    let started_ns = machine_nanos();
    let span = Span {
        trace: trace.with_span(Entropy.bytes()),
        parent,
        name,
        kind,
        started_ns,
        ended_ns: started_ns,
        attributes: Vec::new(),
        failure: None,
    };
    OpenSpan { span, since: Stopwatch::start(), sink: Arc::clone(&kept.sink) }
}

/// Something that is under way.
pub struct OpenSpan {
    span: Span,
    since: Stopwatch,
    sink: Arc<dyn SpanSink>,
}

impl OpenSpan {
    /// What is caused by it belongs here.
    pub fn trace(&self) -> Trace {
        self.span.trace
    }

    pub fn number(&mut self, name: &'static str, value: impl Into<i64>) {
        self.span.attributes.push((name, Value::Number(value.into())));
    }

    pub fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.span.attributes.push((name, Value::Text(value.into())));
    }

    /// It is over.
    pub fn end(mut self, failure: Option<String>) {
        let took = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.span.ended_ns = self.span.started_ns.saturating_add(took);
        self.span.failure = failure;
        self.sink.take(self.span);
    }
}

/// Ends a span, if it was begun.
pub(crate) fn end(span: Option<OpenSpan>, failure: impl FnOnce() -> Option<String>) {
    if let Some(span) = span {
        span.end(failure());
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, SpanKind, SpanSink, Traces, current, within};
    use guerdon_core::Trace;
    use guerdon_core::trace::Share;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Kept(Mutex<Vec<Span>>);

    impl SpanSink for Kept {
        fn take(&self, span: Span) {
            self.0.lock().unwrap().push(span);
        }
    }

    fn caller(sampled: bool) -> Trace {
        Trace { trace_id: [1; 16], span_id: [2; 8], sampled }
    }

    #[test]
    fn a_call_is_a_part_of_its_callers_trace() {
        let kept = Arc::new(Kept::default());
        let traces = Traces::kept_by(Arc::clone(&kept) as Arc<dyn SpanSink>, Share::ALL);
        let call = traces.of_call(|| "GET /".into(), || Some(caller(true))).unwrap();
        let inner = traces.within(Some(call.trace()), SpanKind::Internal, || "commit".into()).unwrap();
        inner.end(None);
        call.end(Some("broken".into()));
        let spans = kept.0.lock().unwrap();
        assert!(spans.iter().all(|span| span.trace.trace_id == [1; 16] && span.ended_ns >= span.started_ns));
        assert_eq!((spans[1].parent, spans[0].parent), (Some([2; 8]), Some(spans[1].trace.span_id)));
        assert_eq!(spans[1].failure.as_deref(), Some("broken"));
    }

    #[test]
    fn what_nobody_keeps_is_not_made() {
        let sink: Arc<dyn SpanSink> = Arc::new(Kept::default());
        let none = Share::of_millionths(0);
        let table = [
            (Traces::default(), Some(caller(true)), false),
            (Traces::kept_by(Arc::clone(&sink), none), Some(caller(true)), false),
            (Traces::kept_by(Arc::clone(&sink), none), None, false),
            (Traces::kept_by(Arc::clone(&sink), Share::ALL), Some(caller(false)), false),
            (Traces::kept_by(Arc::clone(&sink), Share::ALL), Some(caller(true)), true),
            (Traces::kept_by(sink, Share::ALL), None, true),
        ];
        for (traces, caller, made) in table {
            assert_eq!(traces.of_call(String::new, || caller).is_some(), made, "{caller:?}");
        }
    }

    #[tokio::test]
    async fn the_place_is_known_to_what_is_done_within_it() {
        assert_eq!(current(), None);
        assert_eq!(within(Some(caller(true)), async { current() }).await, Some(caller(true)));
        assert_eq!(within(None, async { current() }).await, None);
    }
}
