//! The transport against a client that is a buffer.

use super::*;
use crate::mcp::buffer::Buffer;
use rmcp::model::{EmptyObject, ServerResult};
use serde_json::json;

struct Session {
    transport: Stdio,
    client: Buffer,
    to_server: Option<mpsc::Sender<Line>>,
}

impl Session {
    fn new() -> Session {
        let client = Buffer::default();
        let output = Output::start(client.clone()).expect("a thread");
        let (to_server, lines) = mpsc::channel(64);
        let transport = Stdio::new(lines, 1000, output);
        Session { transport, client, to_server: Some(to_server) }
    }

    async fn say(&self, line: Line) {
        let to_server = self.to_server.as_ref().expect("input has not ended");
        to_server.send(line).await.expect("the transport reads");
    }

    /// Sends a message, and gives what rmcp sees of it once the transport has nothing to do.
    async fn send(&mut self, message: Value) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.say(Line::Whole(message.to_string().into_bytes())).await;
        self.next().await
    }

    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        tokio::select! {
            biased;
            message = self.transport.receive() => message,
            () = a_while() => None,
        }
    }

    async fn call(&mut self, id: Value) -> Option<i64> {
        let params = json!({"name": "run_code"});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        match self.send(call).await {
            Some(JsonRpcMessage::Request(request)) => match request.id {
                RequestId::Number(number) => Some(number),
                RequestId::String(_) => None,
            },
            _ => None,
        }
    }

    async fn answer(&mut self, number: i64) {
        let result = ServerResult::EmptyResult(EmptyObject {});
        let answer = JsonRpcMessage::response(result, RequestId::Number(number));
        self.transport.send(answer).await.expect("it cannot fail");
    }

    async fn heard(&self) -> Vec<Value> {
        self.client.heard(&self.transport.output).await
    }
}

/// Long enough for the transport to step back once, and to read on.
async fn a_while() {
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answers_carry_the_ids_of_the_client() {
    let mut session = Session::new();
    for id in [json!("7"), json!(7), json!(-1), json!(""), json!(1.5)] {
        let number = session.call(id.clone()).await.expect("a request");
        session.answer(number).await;
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        assert_eq!(session.heard().await.pop(), Some(answer));
    }
    assert_eq!(session.transport.state().borrow().open, 0);
}

#[tokio::test]
async fn an_id_under_way_is_refused_and_the_first_call_answered() {
    let mut session = Session::new();
    let first = session.call(json!(1)).await.expect("a request");
    assert_eq!(session.call(json!(1)).await, None);
    session.answer(first).await;
    let heard = session.heard().await;
    assert_eq!(heard[0]["error"]["code"], json!(-32600));
    assert_eq!((&heard[1]["id"], &heard[1]["result"]), (&json!(1), &json!({})));
    assert!(session.call(json!(1)).await.is_some());
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_even_if_its_id_is_used_again() {
    let mut session = Session::new();
    let first = session.call(json!(1)).await.expect("a request");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let seen = session.send(cancel.clone()).await;
    assert!(matches!(seen, Some(JsonRpcMessage::Notification(_))), "{seen:?}");
    let second = session.call(json!(1)).await.expect("a request");
    session.answer(first).await;
    assert_eq!(session.heard().await, Vec::<Value>::new());
    session.answer(second).await;
    assert_eq!(session.heard().await.len(), 1);
    assert!(session.send(cancel).await.is_none());
}

#[tokio::test]
async fn too_many_requests_are_refused_one_by_one() {
    let mut session = Session::new();
    for id in 0..MAX_OPEN {
        assert!(session.call(json!(id)).await.is_some());
    }
    assert!(session.call(json!("more")).await.is_none());
    let heard = session.heard().await;
    assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!("more")));
}

#[tokio::test]
async fn a_line_too_long_is_answered_by_its_id() {
    let mut session = Session::new();
    session.say(Line::TooLong { id: Some(json!("a")) }).await;
    session.say(Line::TooLong { id: None }).await;
    assert!(session.next().await.is_none());
    let heard = session.heard().await;
    assert_eq!(heard[0]["id"], json!("a"));
    assert!(heard[1].get("id").is_none(), "an unknown id is left out: {}", heard[1]);
}

#[tokio::test]
async fn at_the_end_of_input_calls_are_answered_that_the_client_has_not_given_up() {
    let mut session = Session::new();
    let given_up = session.call(json!(1)).await.expect("a request");
    let answered = session.call(json!(2)).await.expect("a request");
    let waited_for = session.call(json!(3)).await.expect("a request");
    session.answer(answered).await;
    session.to_server = None;
    assert!(session.next().await.is_none());
    assert!(session.transport.state().borrow().input_taken);
    session.answer(given_up).await;
    session.answer(waited_for).await;
    let ids: Vec<_> = session.heard().await.into_iter().map(|heard| heard["id"].clone()).collect();
    assert_eq!(ids, [json!(2), json!(3)]);
}
