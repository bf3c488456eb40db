//! The tower layer: a request is in flight until the body of its answer has ended or is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use weir_agent::Agent;
use weir_agent::middleware::{InFlight, LayerSettings};
use weir_testbed::{Flavor, Redis};

use crate::served::{PATIENCE, settings};
use crate::{RULES, becomes_free, free, on};

/// A body of several frames and trailers, each of which waits for its turn.
struct Slow {
    frames: Vec<Frame<Bytes>>,
    says_when_over: bool,
}

impl Slow {
    fn new(says_when_over: bool) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("3"));
        let mut frames = vec![Frame::data("one".into()), Frame::data("two".into()), Frame::trailers(trailers)];
        frames.reverse();
        Self { frames, says_when_over }
    }
}

impl Body for Slow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frames.pop().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.says_when_over && self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(6)
    }
}

fn request() -> Request<Full<Bytes>> {
    Request::new(Full::default())
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_been_read() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    for says_when_over in [true, false] {
        let slow = service_fn(move |_: Request<Full<Bytes>>| async move { Ok::<_, Infallible>(Response::new(Slow::new(says_when_over))) });
        let service = agent.layer(LayerSettings::default()).unwrap().layer(slow);
        let mut response = service.oneshot(request()).await.unwrap();
        assert_eq!((response.body().size_hint().exact(), response.body().is_end_stream(), free(&agent).await), (Some(6), false, 1));
        let mut seen = Vec::new();
        while let Some(frame) = response.body_mut().frame().await {
            let frame = frame.unwrap();
            seen.push(frame.is_data());
            if frame.is_data() {
                assert_eq!(free(&agent).await, 1);
            } else {
                assert_eq!(frame.trailers_ref().unwrap()["x-sum"], "3");
            }
        }
        assert_eq!(seen, [true, true, false]);
        // The response is still there.
        assert_eq!(free(&agent).await, 2);
        drop(response);
        assert_eq!(free(&agent).await, 2);
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn a_body_that_is_dropped_half_way_ends_its_request() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let slow = service_fn(|_: Request<Full<Bytes>>| async { Ok::<_, Infallible>(Response::new(Slow::new(true))) });
    let service = agent.layer(LayerSettings::default()).unwrap().layer(slow);
    let mut response = service.clone().oneshot(request()).await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(free(&agent).await, 1);
    drop(response);
    assert_eq!(free(&agent).await, 2);
    // Never read at all.
    drop(service.oneshot(request()).await.unwrap());
    assert_eq!(free(&agent).await, 2);
    agent.shutdown().await;
}

/// A service that fails or panics, and a caller that does not wait for the answer.
#[tokio::test]
async fn a_request_without_an_answer_ends_too() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let layer = agent.layer(LayerSettings::default()).unwrap();
    let failing = layer.layer(service_fn(|_: Request<Full<Bytes>>| async { Err::<Response<Full<Bytes>>, _>("the service broke") }));
    failing.oneshot(request()).await.unwrap_err();
    assert_eq!(free(&agent).await, 2);

    let panicking = layer.layer(service_fn(|_: Request<Full<Bytes>>| async {
        let answer: Result<Response<Full<Bytes>>, Infallible> = Ok(Response::default());
        if answer.is_ok() {
            panic!("a bug");
        }
        answer
    }));
    tokio::spawn(panicking.oneshot(request())).await.unwrap_err();
    assert_eq!(free(&agent).await, 2);

    let (called, has_called) = oneshot::channel();
    let called = Arc::new(parking_lot::Mutex::new(Some(called)));
    let stuck = layer.layer(service_fn(move |_: Request<Full<Bytes>>| {
        let _ = called.lock().take().unwrap().send(());
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    }));
    let waiting = tokio::spawn(stuck.oneshot(request()));
    has_called.await.unwrap();
    assert_eq!(free(&agent).await, 1);
    waiting.abort();
    waiting.await.unwrap_err();
    assert_eq!(free(&agent).await, 2);
    agent.shutdown().await;
}

/// A connection that was upgraded lives longer than the answer that said so: its service keeps the request in flight.
#[tokio::test]
async fn a_service_may_keep_its_request_in_flight() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let (give, mut take) = tokio::sync::mpsc::unbounded_channel();
    let upgrading = service_fn(move |request: Request<Full<Bytes>>| {
        let in_flight = request.extensions().get::<InFlight>().unwrap().clone();
        give.send(in_flight.keep().unwrap()).unwrap();
        assert!(in_flight.keep().is_none());
        async { Ok::<_, Infallible>(Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).body(Full::<Bytes>::default()).unwrap()) }
    });
    let service = agent.layer(LayerSettings::default()).unwrap().layer(upgrading);
    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(free(&agent).await, 1);
    drop(take.recv().await.unwrap());
    assert_eq!(free(&agent).await, 2);
    agent.shutdown().await;
}

/// Two layers around one service: whoever keeps the request keeps what both of them hold, and whoever does not, neither.
#[tokio::test]
async fn a_kept_request_stays_in_flight_for_every_layer() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    for keeps in [true, false] {
        let (give, mut take) = tokio::sync::mpsc::unbounded_channel();
        let upgrading = service_fn(move |request: Request<Full<Bytes>>| {
            let in_flight = request.extensions().get::<InFlight>().unwrap().clone();
            give.send(keeps.then(|| in_flight.keep().unwrap())).unwrap();
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
        });
        let layer = agent.layer(LayerSettings::default()).unwrap();
        layer.clone().layer(layer.layer(upgrading)).oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(free(&agent).await, if keeps { 0 } else { 2 });
        drop(take.recv().await.unwrap());
        assert_eq!(free(&agent).await, 2);
    }
    agent.shutdown().await;
}

/// Where no `concurrency` rule applies nothing is held, and the body is as it was.
#[tokio::test]
async fn without_such_a_rule_nothing_is_held() {
    let rules = r#"{ domain: default, rules: [{ name: rate, key: [], limits: { "*": { limit: 9, window: 1h } } }] }"#;
    let agent = Agent::start(settings(rules)).await.unwrap();
    let service = service_fn(|request: Request<Full<Bytes>>| async move {
        assert!(request.extensions().get::<InFlight>().is_none());
        Ok::<_, Infallible>(Response::new(Slow::new(true)))
    });
    let response = agent.layer(LayerSettings::default()).unwrap().layer(service).oneshot(request()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "onetwo");
    agent.shutdown().await;
}

/// Many at once, on a shard: never more in the service than the limit, and all places are free at the end.
#[tokio::test]
async fn exact_never_more_in_flight_than_the_limit() {
    let redis = Arc::new(Redis::temporary(Flavor::available().unwrap()).await.unwrap());
    let (one, other) = (Agent::start(on(&redis, settings(RULES))).await.unwrap(), Agent::start(on(&redis, settings(RULES))).await.unwrap());
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let service = {
        let (inside, most, redis) = (inside.clone(), most.clone(), redis.clone());
        service_fn(move |_: Request<Full<Bytes>>| {
            let (inside, most, redis) = (inside.clone(), most.clone(), redis.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // As long as others take to be decided.
                redis.ask(&["PING"]).await.unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done")))
            }
        })
    };
    let caller = async |agent: &Agent| {
        let service = agent.layer(LayerSettings::default()).unwrap().layer(service.clone());
        let mut passed = 0;
        for _ in 0..40 {
            let response = service.clone().oneshot(request()).await.unwrap();
            passed += usize::from(response.status() == StatusCode::OK);
            response.into_body().collect().await.unwrap();
        }
        passed
    };
    let passed: usize = join_all((0..10).map(|i| caller(if i % 2 == 0 { &one } else { &other }))).await.into_iter().sum();
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert!(passed > 2, "places are given back: {passed} passed");
    becomes_free(&one, 2).await;
    one.shutdown().await;
    other.shutdown().await;
}

/// A client that goes away ends its request.
#[tokio::test]
async fn a_client_that_disconnects_ends_its_request() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let endless = axum::routing::get(async || {
        axum::body::Body::from_stream(futures::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(b"more"))))
    });
    let app = axum::Router::new().route("/", endless).layer(agent.layer(LayerSettings::default()).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut some = [0; 64];
    tokio::time::timeout(PATIENCE, client.read_exact(&mut some)).await.unwrap().unwrap();
    assert_eq!(free(&agent).await, 1);
    drop(client);
    becomes_free(&agent, 2).await;
    serving.abort();
    agent.shutdown().await;
}

/// Whoever stops waiting for the decision leaves nothing behind on the shard.
#[tokio::test]
async fn an_acquire_that_nobody_waits_for_is_given_back() {
    let redis = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let agent = Agent::start(on(&redis, settings(RULES))).await.unwrap();
    for _ in 0..20 {
        let mut service = agent
            .layer(LayerSettings::default())
            .unwrap()
            .layer(service_fn(async |_: Request<Full<Bytes>>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))));
        let mut call = service.ready().await.unwrap().call(request());
        // Sent, perhaps, but not answered.
        assert!(futures::poll!(&mut call).is_pending());
        tokio::task::yield_now().await;
        drop(call);
    }
    becomes_free(&agent, 2).await;
    agent.shutdown().await;
}
