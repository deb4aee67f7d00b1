//! Answers to a question of the agent, part by part.

use plexus_client::wire::{Question as UserQuestion, QuestionPart, RespondParams};

use super::words::answer_help;
use super::{Move, Question, Step};
use plexus_render::question;
use plexus_render::screen::Screen;
use plexus_render::tool_call::Extent;

impl Question {
    /// The part of the agent's question that is asked next.
    pub(super) fn next_part(&self) -> Option<(usize, &QuestionPart)> {
        let Step::Answer(answers) = &self.step else { return None };
        self.parts().iter().enumerate().find(|(_, part)| !answers.contains_key(&part.id))
    }

    fn parts(&self) -> &[QuestionPart] {
        match self.approval.question.as_ref().and_then(|question| question.known()) {
            Some(UserQuestion::Choices { questions }) => questions,
            Some(UserQuestion::Plan { .. }) | None => &[],
        }
    }

    pub(super) fn part_lines(&self, at: usize, screen: Screen) -> Vec<String> {
        let lines = question::part(self.parts(), at, Extent::Short, screen);
        lines.into_iter().map(|line| format!("  {line}")).collect()
    }

    /// Takes the answer to one part of the agent's question.
    pub(super) fn answer(&mut self, line: &str, screen: Screen) -> Move {
        match line {
            "n" | "no" => return self.deny(),
            "v" | "view" => return Move::View(self.whole(screen)),
            "s" | "show" => return Move::Ask(self.shown(Extent::Short, screen)),
            "?" | "h" | "help" => return Move::Ask(answer_help()),
            _ => {}
        }
        let Some((_, part)) = self.next_part() else { return Move::Ask(Vec::new()) };
        let (id, chosen) = match question::chosen(part, line) {
            Ok(chosen) => (part.id.clone(), chosen),
            Err(words) => return Move::Ask(vec![format!("  {words}")]),
        };
        if let Step::Answer(answers) = &mut self.step {
            answers.insert(id, chosen);
        }
        if let Some((at, _)) = self.next_part() {
            return Move::Ask(self.part_lines(at, screen));
        }
        let answers = match &self.step {
            Step::Answer(answers) => Some(answers.clone()),
            _ => None,
        };
        Move::Decide(Box::new(RespondParams { answers, ..RespondParams::allow(&self.approval) }))
    }
}
