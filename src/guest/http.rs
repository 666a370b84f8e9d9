//! Outgoing HTTP: to the listed hosts, each request asked of the gate first and its end reported.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http_body_util::BodyExt;
use wasmtime_wasi::runtime::poll_noop;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks, default_send_request};

use crate::agent::Session;

/// How long a connection may take to stand, at most.
const CONNECT: Duration = Duration::from_secs(30);
/// How long the first byte of a response may take, at most; a guest may ask for less.
const FIRST_BYTE: Duration = Duration::from_secs(600);
/// How long between two parts of a body.
const BETWEEN: Duration = Duration::from_secs(60);
/// Bytes of a URL.
const URL: usize = 8 << 10;

/// Where requests may go: a scheme, a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin(String, String, u16);

impl Origin {
    /// The origin of an absolute URL; `None` where it has none.
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?;
        let port = match (uri.port_u16(), scheme) {
            (Some(port), _) => port,
            (None, "https") => 443,
            (None, "http") => 80,
            (None, _) => return None,
        };
        // A user name before the host makes one URL look like another.
        let plain = !uri.authority()?.as_str().contains('@');
        plain.then(|| Self(scheme.to_owned(), uri.host().unwrap_or_default().to_ascii_lowercase(), port))
    }
}

/// The hosts a guest may reach, and whom to ask.
pub(super) struct Outgoing {
    pub(super) session: Session,
    pub(super) hosts: Arc<[Origin]>,
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
            let asked = session.http(request.method().to_string(), url).await;
            let Ok(Ok(call)) = asked else { return Err(Error::HttpRequestDenied) };
            let open = Open { session, call, over: false };
            // The gate has decided by the same list; this holds where a gate does not.
            if !Origin::of(request.uri()).is_some_and(|origin| hosts.contains(&origin)) {
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

    #[test]
    fn an_origin_is_the_same_however_it_is_spelled_and_no_other() {
        let origin = |url: &str| Origin::of(&url.parse().unwrap());
        assert_eq!(origin("https://Api.example.com/x?y"), origin("https://api.example.com:443"));
        assert_ne!(origin("http://api.example.com"), origin("https://api.example.com"));
        assert_ne!(origin("http://a:81"), origin("http://a"));
        assert_eq!(origin("https://api.example.com@evil.org/"), None);
        assert_eq!(origin("ftp://a"), None);
        assert_eq!(origin("/relative"), None);
    }
}
