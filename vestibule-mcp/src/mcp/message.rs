//! What a line of input says: one JSON-RPC message, or why it is none.

use super::id::IdScanner;
use rmcp::model::{
    CallToolRequest, ClientNotification, ClientRequest, CustomRequest, DiscoverRequest, ErrorData,
    InitializeRequest, ListToolsRequest, PingRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Some editors and shells put a byte order mark before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line of input, understood.
#[derive(Debug)]
pub enum Message {
    /// A request, to be answered under this id: a string or a number.
    Request(Value, Box<ClientRequest>),
    /// The client wants no answer to the request with this id any more.
    Cancelled(Value),
    /// Any other notification.
    Notification(Box<ClientNotification>),
    /// To be answered with this error; without an id when none could be read.
    Refused(Option<Value>, ErrorData),
    /// Nothing to answer to; says why.
    Ignored(&'static str),
    /// A line of white space.
    Blank,
}

/// Reads one line, whatever its bytes are.
pub fn parse(line: &[u8]) -> Message {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return Message::Blank;
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => message(fields),
        Ok(Value::Array(_)) => Message::Refused(
            None,
            ErrorData::invalid_request(
                "A batch is not supported: send each message on a line of its own",
                None,
            ),
        ),
        Ok(_) => Message::Ignored("it is JSON, but no object"),
        Err(error) => unreadable(line, &error),
    }
}

fn unreadable(line: &[u8], error: &serde_json::Error) -> Message {
    let mut scanner = IdScanner::default();
    scanner.feed(line);
    match scanner.finish() {
        Some(id) => {
            let what = format!("Parse error: {error}");
            Message::Refused(Some(id), ErrorData::parse_error(what, None))
        }
        None => Message::Ignored("it is no JSON, and has no id to answer to"),
    }
}

fn message(mut fields: Map<String, Value>) -> Message {
    let has_id = fields.contains_key("id");
    let id = fields.remove("id").filter(|id| id.is_string() || id.is_number());
    let invalid = |id, what: &'static str| {
        if has_id {
            Message::Refused(id, ErrorData::invalid_request(what, None))
        } else {
            Message::Ignored(what)
        }
    };
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return invalid(id, "Invalid request: `method` must be a string"),
        None if fields.contains_key("result") || fields.contains_key("error") => {
            return Message::Ignored("it is an answer, but this server asks nothing");
        }
        None => return invalid(id, "Invalid request: `method` is missing"),
    };
    if fields.remove("jsonrpc").is_none_or(|version| version != "2.0") {
        return invalid(id, "Invalid request: `jsonrpc` must be \"2.0\"");
    }
    let params = fields.remove("params").filter(|params| !params.is_null());
    match (has_id, id) {
        (true, None) => invalid(None, "Invalid request: `id` must be a string or a number"),
        (true, Some(id)) => match request(&method, params) {
            Ok(request) => Message::Request(id, Box::new(request)),
            Err(error) => Message::Refused(Some(id), error),
        },
        (false, _) => notification(method, params),
    }
}

/// The request of this method. rmcp's own reading of any request falls back to an unknown method
/// when the parameters don't fit; by method, the answer can say what is wrong with them.
fn request(method: &str, params: Option<Value>) -> Result<ClientRequest, ErrorData> {
    if params.as_ref().is_some_and(|params| !params.is_object()) {
        let what = format!("Invalid params: the params of {method:?} must be an object");
        return Err(ErrorData::invalid_params(what, None));
    }
    match method {
        "initialize" => typed::<InitializeRequest>(method, params),
        "ping" => typed::<PingRequest>(method, params),
        "server/discover" => typed::<DiscoverRequest>(method, params),
        "tools/list" => typed::<ListToolsRequest>(method, params),
        "tools/call" => typed::<CallToolRequest>(method, params),
        _ => typed::<CustomRequest>(method, params),
    }
}

fn typed<T>(method: &str, params: Option<Value>) -> Result<ClientRequest, ErrorData>
where
    T: DeserializeOwned + Into<ClientRequest>,
{
    let request = serde_json::from_value::<T>(body(method, params)).map_err(|error| {
        ErrorData::invalid_params(format!("Invalid params of {method}: {error}"), None)
    })?;
    Ok(request.into())
}

fn notification(method: String, params: Option<Value>) -> Message {
    if method == "notifications/cancelled" {
        let id = params.as_ref().and_then(|params| params.get("requestId"));
        return match id {
            Some(id) if id.is_string() || id.is_number() => Message::Cancelled(id.clone()),
            _ => Message::Ignored("it cancels a request, but does not name one"),
        };
    }
    match serde_json::from_value(body(&method, params)) {
        Ok(notification) => Message::Notification(Box::new(notification)),
        Err(_) => Message::Ignored("it is a notification whose params must be an object"),
    }
}

fn body(method: &str, params: Option<Value>) -> Value {
    let mut body = Map::new();
    body.insert("method".into(), method.into());
    body.extend(params.map(|params| ("params".into(), params)));
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rmcp::model::ErrorCode;
    use serde_json::json;

    fn request_of(line: &str) -> (Value, ClientRequest) {
        match parse(line.as_bytes()) {
            Message::Request(id, request) => (id, *request),
            other => panic!("expected a request from {line}, got {other:?}"),
        }
    }

    fn refusal_of(line: impl AsRef<[u8]>) -> (Option<Value>, ErrorCode) {
        match parse(line.as_ref()) {
            Message::Refused(id, error) => (id, error.code),
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[test]
    fn a_call_keeps_its_id_and_arguments() {
        let (id, request) = request_of(
            r#" {"jsonrpc":"2.0","id":"ü","method":"tools/call","params":{"name":"run_code","arguments":{"code":"x"},"_meta":{"progressToken":7}}} "#,
        );
        assert_eq!(id, json!("ü"));
        let ClientRequest::CallToolRequest(call) = request else { panic!("expected tools/call") };
        assert_eq!(call.params.name, "run_code");
        assert_eq!(call.params.arguments, json!({"code": "x"}).as_object().cloned());
    }

    #[test]
    fn a_byte_order_mark_and_null_params_are_no_obstacle() {
        let line = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}\r";
        assert!(matches!(request_of(line).1, ClientRequest::PingRequest(_)));
    }

    #[test]
    fn malformed_params_are_named_as_such() {
        for params in [
            r#"{"arguments":{}}"#,
            r#"{"name":5}"#,
            r#"{"name":"run_code","arguments":[1]}"#,
            r#"{"name":"run_code","arguments":"x"}"#,
            "[]",
            "5",
            "\"x\"",
            "null",
        ] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{params}}}"#);
            assert_eq!(refusal_of(line), (Some(json!(3)), ErrorCode::INVALID_PARAMS), "{params}");
        }
        let line = r#"{"jsonrpc":"2.0","id":3,"method":"initialize"}"#;
        assert_eq!(refusal_of(line), (Some(json!(3)), ErrorCode::INVALID_PARAMS));
    }

    #[test]
    fn an_unknown_method_is_left_to_the_dispatcher() {
        for method in ["foo/bar", "", "resources/read", "pi\\u0000ng"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}"}}"#);
            assert!(matches!(request_of(&line).1, ClientRequest::CustomRequest(_)), "{method}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_under_its_id() {
        for line in [
            r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
            r#"{"id":3,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":3}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":5}"#,
        ] {
            assert_eq!(refusal_of(line), (Some(json!(3)), ErrorCode::INVALID_REQUEST), "{line}");
        }
        for id in ["null", "true", "[]", "{}"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(refusal_of(line), (None, ErrorCode::INVALID_REQUEST), "{id}");
        }
        assert_eq!(refusal_of("[]"), (None, ErrorCode::INVALID_REQUEST));
    }

    #[test]
    fn what_no_parser_takes_is_refused_under_its_id() {
        let deep = format!(r#"{{"id":3,"x":{}{}}}"#, "[".repeat(20000), "]".repeat(20000));
        for line in [deep.as_str(), r#"{"x":"\ud800","id":3}"#, r#"{"id":3,"method":"ping",}"#] {
            assert_eq!(refusal_of(line), (Some(json!(3)), ErrorCode::PARSE_ERROR));
        }
        let line = b"{\"id\":3,\"method\":\"p\xffng\"}";
        assert_eq!(refusal_of(line), (Some(json!(3)), ErrorCode::PARSE_ERROR));
    }

    #[test]
    fn answers_and_lines_without_an_id_are_ignored() {
        for line in [
            "this is not json",
            "{",
            "{}",
            "42",
            "null",
            "\0",
            "{'id': 5}",
            r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":4711,"error":{"code":1,"message":"x"}}"#,
            r#"{"jsonrpc":"1.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/foo","params":[1]}"#,
        ] {
            assert!(matches!(parse(line.as_bytes()), Message::Ignored(_)), "{line}");
        }
        assert!(matches!(parse(b" \t\r"), Message::Blank));
    }

    #[test]
    fn a_cancellation_names_the_id_as_the_client_wrote_it() {
        let line = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"x"}}"#;
        assert!(matches!(parse(line.as_bytes()), Message::Cancelled(id) if id == json!("7")));
        let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(matches!(parse(line.as_bytes()), Message::Notification(_)));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(&line);
        }

        #[test]
        fn a_request_is_never_left_without_an_answer(
            id in any::<i64>(),
            method in prop_oneof![Just("tools/call".to_owned()), Just("initialize".to_owned()), ".{0,20}"],
            params in prop_oneof![Just(json!(null)), any::<i32>().prop_map(|n| json!([n])),
                ".{0,20}".prop_map(|name| json!({"name": name, "arguments": {"code": 1}, "_meta": [name]}))],
        ) {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            match parse(line.to_string().as_bytes()) {
                Message::Request(got, _) | Message::Refused(Some(got), _) => {
                    prop_assert_eq!(got, json!(id));
                }
                other => prop_assert!(false, "left without an answer: {other:?}"),
            }
        }
    }
}
