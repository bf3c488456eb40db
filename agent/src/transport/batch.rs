//! `POST /v1/check:batch`: many questions at once, each answered for itself and in its place.
//!
//! All are asked at the same time, so that they travel to a shard in few calls, and in their order, so that of two questions about one
//! counter the first has the first turn. A question that is bad is answered by its problem and costs the others nothing.

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::future::join_all;
use weir_core::mistake::Mistakes;

use super::check::accepted;
use super::json::{Json, REPEATED, escaped};
use super::permit::Permitted;
use super::question::{Form, Question};
use super::{body, written};
use crate::agent::Agent;
use crate::answer::{self, Problem};

/// The most questions of a batch.
const MAX_QUESTIONS: usize = 100;

pub(super) async fn check(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match body::read(request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let questions = match questions(&body) {
        Ok(questions) => questions,
        Err(mistakes) => return answer::bad_request(&mistakes).into_response(),
    };
    let answers = join_all(questions.into_iter().map(|question| answered(question, permitted, &agent))).await;
    let mut written = br#"{"answers":["#.to_vec();
    written.extend(answers.join(&b','));
    written.extend_from_slice(b"]}");
    body::json(written)
}

/// The entries of `{"checks": [...]}`.
fn questions(body: &[u8]) -> Result<Vec<Json<'_>>, Mistakes> {
    let (mut mistakes, mut checks) = (Mistakes::new(), None);
    for (field, value) in Json::parse(body)?.into_object()? {
        match &*field {
            "checks" if checks.is_some() => mistakes.add("/checks", REPEATED),
            "checks" => checks = Some(value),
            _ => mistakes.add(format!("/{}", escaped(&field)), "is not a field; the only field is checks"),
        }
    }
    match checks {
        Some(Json::List(checks)) if (1..=MAX_QUESTIONS).contains(&checks.len()) => return mistakes.into_result(checks),
        Some(Json::List(checks)) => mistakes.add("/checks", format!("must have 1 to {MAX_QUESTIONS} questions, not {}", checks.len())),
        _ => mistakes.add("/checks", "must be a list of questions, each as of /v1/check"),
    }
    Err(mistakes)
}

/// The answer to one question, or its problem.
async fn answered(question: Json<'_>, permitted: Permitted, agent: &Agent) -> Vec<u8> {
    let problem = |problem: &Problem| serde_json::to_vec(problem.body()).unwrap_or_default();
    let question = Question::read(question, Form::Check).map_err(|mistakes| answer::bad_request(&mistakes));
    match question.and_then(|question| accepted(question, permitted)) {
        Err(error) => problem(&error),
        Ok(question) => match agent.check(&question.request(&question.descriptors())).await {
            Ok(decision) => written::decision(&decision, agent),
            Err(error) => problem(&answer::undecidable(&error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(body: &str) -> Vec<String> {
        questions(body.as_bytes()).unwrap_err().into_iter().map(|mistake| mistake.pointer).collect()
    }

    #[test]
    fn a_batch_has_one_to_a_hundred_questions() {
        let many = |count: usize| format!(r#"{{"checks":[{}]}}"#, vec!["{}"; count].join(","));
        assert_eq!(questions(many(1).as_bytes()).unwrap().len(), 1);
        assert_eq!(questions(many(100).as_bytes()).unwrap().len(), 100);
        for bad in [&many(0), &many(101), "{}", r#"{"checks":null}"#, r#"{"checks":{}}"#] {
            assert_eq!(pointers(bad), ["/checks"], "{bad}");
        }
        assert_eq!(pointers(r#"{"checks":[{}],"checks":[{}],"domain":"x"}"#), ["/checks", "/domain"]);
        assert_eq!(pointers("[]"), [""]);
    }
}
