//! Sends one HTTP request: its task is a method and a URL, its answer the status and the start of the body.

use agent::Guest;
use agent::types::Task;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingBody, IncomingResponse, Method, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

struct Fetch;

impl Guest for Fetch {
    fn run(task: Task) -> Result<String, String> {
        let (method, url) = task.text.trim().split_once(' ').ok_or("the task is not `METHOD URL`")?;
        let response = send(method, url)?;
        let status = response.status();
        Ok(format!("{status}\n{}", body(&response)?))
    }
}

agent::export!(Fetch with_types_in agent::world);

/// Bytes of a body that are read.
const MOST: usize = 64 << 10;

fn send(method: &str, url: &str) -> Result<IncomingResponse, String> {
    let (scheme, rest) = url.split_once("://").ok_or("the URL has no scheme")?;
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.into()),
    };
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        other => Method::Other(other.into()),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let request = OutgoingRequest::new(Fields::new());
    let refused = |()| "the request cannot be written like this".to_owned();
    request.set_method(&method).map_err(refused)?;
    request.set_scheme(Some(&scheme)).map_err(refused)?;
    request.set_authority(Some(authority)).map_err(refused)?;
    request.set_path_with_query(Some(path)).map_err(refused)?;
    let response = outgoing_handler::handle(request, None).map_err(|error| error.to_string())?;
    response.subscribe().block();
    match response.get() {
        Some(Ok(Ok(response))) => Ok(response),
        Some(Ok(Err(error))) => Err(error.to_string()),
        _ => Err("there is no response".into()),
    }
}

fn body(response: &IncomingResponse) -> Result<String, String> {
    let body: IncomingBody = response.consume().map_err(|()| "the body is gone")?;
    let stream = body.stream().map_err(|()| "the body has no stream")?;
    let mut all = Vec::new();
    while all.len() < MOST {
        match stream.blocking_read((MOST - all.len()) as u64) {
            Ok(piece) => all.extend(piece),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}
