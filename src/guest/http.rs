//! Outgoing HTTP: to the listed hosts, each request asked of the gate first and its end reported.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use wasmtime_wasi::runtime::poll_noop;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks, default_send_request};

use crate::agent::Session;
use crate::capsule::Host;

/// How long a connection may take to stand, at most.
const CONNECT: Duration = Duration::from_secs(30);
/// How long the first byte of a response may take, at most; a guest may ask for less.
const FIRST_BYTE: Duration = Duration::from_secs(600);
/// How long between two parts of a body.
const BETWEEN: Duration = Duration::from_secs(60);
/// Bytes of a URL.
const URL: usize = 8 << 10;

/// The hosts a guest may reach, and whom to ask.
pub(super) struct Outgoing {
    pub(super) session: Session,
    pub(super) hosts: Arc<BTreeSet<Host>>,
}

/// What a response is, besides its head: the rest of the exchange.
type Exchange = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Answer = Result<(http::Response<WasiBody>, Exchange), Error>;

impl WasiHttpHooks for Outgoing {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Exchange,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        let (session, hosts) = (self.session.clone(), self.hosts.clone());
        Box::new(async move {
            let url = request.uri().to_string();
            if url.len() > URL {
                return Err(Error::HttpRequestUriTooLong);
            }
            let asked = session.http(request.method().to_string(), url.clone()).await;
            let Ok(Ok(call)) = asked else { return Err(Error::HttpRequestDenied) };
            let open = Open { session, call, over: false };
            // The gate has decided by the same list; this holds where a gate does not.
            if !Host::of_url(&url).is_ok_and(|host| hosts.contains(&host)) {
                return open
                    .end(Err("not a host listed under grants.network".to_owned()), Err(Error::HttpRequestDenied))
                    .await;
            }
            let options = bounded(options);
            let whole = CONNECT + options.first_byte_timeout.unwrap_or(FIRST_BYTE);
            // The bound around all of it also covers what has none of its own: the TLS handshake.
            match tokio::time::timeout(whole, default_send_request(request, Some(options))).await {
                Err(_) => open.end(Err("timed out".to_owned()), Err(Error::ConnectionTimeout)).await,
                Ok(Err(error)) => open.end(Err(error.to_string()), Err(error)).await,
                Ok(Ok((response, rest))) => {
                    let status = response.status().as_u16();
                    let answer = (response.map(BodyExt::boxed_unsync), Box::new(rest) as Exchange);
                    open.end(Ok(status), Ok(answer)).await
                }
            }
        })
    }
}

fn bounded(options: Option<RequestOptions>) -> RequestOptions {
    let asked = options.unwrap_or_default();
    let least = |asked: Option<Duration>, most: Duration| Some(asked.map_or(most, |asked| asked.min(most)));
    RequestOptions {
        connect_timeout: least(asked.connect_timeout, CONNECT),
        first_byte_timeout: least(asked.first_byte_timeout, FIRST_BYTE),
        between_bytes_timeout: least(asked.between_bytes_timeout, BETWEEN),
    }
}

/// A request the gate let out. It ends once, also when the guest lets go of it in the middle.
struct Open {
    session: Session,
    call: u32,
    over: bool,
}

impl Open {
    async fn end(mut self, outcome: Result<u16, String>, answer: Answer) -> Answer {
        let told = self.session.http_ended(self.call, outcome).await;
        self.over = true;
        told.map_err(|_| Error::HttpRequestDenied)?;
        answer
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.over {
            // Nobody can wait here. Where credit is short the session ends the call with its own.
            let mut told = Box::pin(self.session.http_ended(self.call, Err("the guest let go of it".to_owned())));
            let _sent = poll_noop(told.as_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use http_body_util::Empty;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use crate::agent::{Call, Credit, Port, Refusal};
    use crate::ids::SessionPath;

    type Ended = (u32, Result<u16, String>);

    /// A gate that allows all or nothing, and hears how it went.
    #[derive(Clone, Default)]
    struct Gate {
        denies: bool,
        asked: Arc<Mutex<Vec<String>>>,
        ended: Arc<Mutex<Vec<Ended>>>,
    }

    impl Port for Gate {
        fn send(&self, call: Call, _: Credit) -> Result<(), Box<Call>> {
            match call {
                Call::Http { method, url, reply } => {
                    self.asked.lock().unwrap().push(format!("{method} {url}"));
                    let denied = Refusal { key: "grants.network".into(), reason: "no".into() };
                    reply.send(if self.denies { Err(denied) } else { Ok(3) }).unwrap();
                }
                Call::HttpEnded { call, outcome } => self.ended.lock().unwrap().push((call, outcome)),
                other => panic!("{other:?}"),
            }
            Ok(())
        }
    }

    impl Gate {
        fn send(&self, hosts: &[&str], url: &str) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>> {
            let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect::<BTreeSet<Host>>().into();
            let session = Session::new(Arc::new(self.clone()), SessionPath::root(), 1 << 20);
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let request = http::Request::get(url).body(body).unwrap();
            Outgoing { session, hosts }.send_request(request, None, Box::new(async { Ok(()) })).into()
        }
    }

    /// A server that answers each connection with these bytes and closes it.
    #[expect(clippy::disallowed_methods, reason = "a test's own server")]
    async fn server(answer: &'static [u8]) -> (String, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::task::spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let _read = stream.read(&mut head).await;
                let _gone = stream.write_all(answer).await;
            }
        });
        (url, serving)
    }

    #[tokio::test]
    async fn a_listed_host_is_reached_once_the_gate_allows_it() {
        tokio::task::LocalSet::new()
            .run_until(async {
                let (url, serving) = server(b"HTTP/1.1 204 No Content\r\n\r\n").await;
                let gate = Gate::default();
                let (response, _rest) =
                    gate.send(&[&url], &format!("{url}/x")).await.map_err(|e| e.to_string()).unwrap();
                assert_eq!(response.status(), 204);
                assert_eq!(*gate.asked.lock().unwrap(), [format!("GET {url}/x")]);
                assert_eq!(*gate.ended.lock().unwrap(), [(3, Ok(204))]);
                serving.abort();
            })
            .await;
    }

    #[tokio::test]
    async fn a_denial_and_an_unlisted_host_send_nothing() {
        tokio::task::LocalSet::new()
            .run_until(async {
                let (url, serving) = server(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let gate = Gate { denies: true, ..Gate::default() };
                assert!(matches!(gate.send(&[&url], &url).await.err(), Some(Error::HttpRequestDenied)));
                assert!(gate.ended.lock().unwrap().is_empty());
                // A gate that allows what is not granted is not believed.
                let gate = Gate::default();
                assert!(matches!(gate.send(&["http://other"], &url).await.err(), Some(Error::HttpRequestDenied)));
                assert!(matches!(&gate.ended.lock().unwrap()[..], [(3, Err(why))] if why.contains("grants.network")));
                serving.abort();
            })
            .await;
    }

    #[tokio::test]
    async fn a_server_that_floods_or_lies_or_is_not_there_ends_the_call_once() {
        let endless: &'static [u8] =
            Box::leak(format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(4 << 20)).into_bytes().into());
        tokio::task::LocalSet::new()
            .run_until(async {
                for answer in [endless, b"\0\xff\xfe garbage\r\n\r\n", b""] {
                    let (url, serving) = server(answer).await;
                    let gate = Gate::default();
                    assert!(gate.send(&[&url], &url).await.is_err());
                    assert!(matches!(&gate.ended.lock().unwrap()[..], [(3, Err(_))]));
                    serving.abort();
                }
                let gate = Gate::default();
                assert!(gate.send(&["http://127.0.0.1:1"], "http://127.0.0.1:1/").await.is_err());
                assert_eq!(gate.ended.lock().unwrap().len(), 1);
            })
            .await;
    }

    #[tokio::test]
    async fn a_request_let_go_of_in_the_middle_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let gate = Gate::default();
        let mut request = gate.send(&[&url], &url);
        tokio::select! {
            biased;
            _ = &mut request => panic!("nobody answers"),
            _connected = listener.accept() => {}
        }
        drop(request);
        assert!(matches!(&gate.ended.lock().unwrap()[..], [(3, Err(why))] if why.contains("let go")));
    }

    #[tokio::test]
    async fn a_url_without_end_is_not_even_asked_about() {
        let gate = Gate::default();
        let answer = gate.send(&["http://a"], &format!("http://a/{}", "x".repeat(URL))).await;
        assert!(matches!(answer.err(), Some(Error::HttpRequestUriTooLong)));
        assert!(gate.asked.lock().unwrap().is_empty());
    }
}
