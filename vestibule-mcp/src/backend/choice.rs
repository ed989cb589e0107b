//! Which of several backends is taken: the one place where `auto`'s order is decided, for calls and for
//! those who only look.

use protocol::{Level, Refusal};

/// What the backends answered for one language, asked in the order of the settings.
pub struct Choice<T> {
    best: Option<(usize, Level, T)>,
    refusals: Vec<(&'static str, Refusal)>,
}

impl<T> Choice<T> {
    /// Nobody was asked yet.
    pub const fn new() -> Choice<T> {
        Choice { best: None, refusals: Vec::new() }
    }

    /// Takes the answer of the backend of this index and name. Of equal levels the first is kept.
    pub fn add(&mut self, index: usize, name: &'static str, answer: Result<(Level, T), Refusal>) {
        match answer {
            Ok((level, value)) => {
                if self.best.as_ref().is_none_or(|(_, best, _)| level < *best) {
                    self.best = Some((index, level, value));
                }
            }
            Err(refusal) => self.refusals.push((name, refusal)),
        }
    }

    /// Whether the other backends need not be asked: one that applies everything wins at once.
    pub fn is_settled(&self) -> bool {
        self.best.as_ref().is_some_and(|(_, level, _)| *level <= Level::Container)
    }

    /// The strongest that works, with its index.
    ///
    /// # Errors
    /// Every backend's name and reason, if none works.
    pub fn made(self) -> Result<(usize, T), Vec<(&'static str, Refusal)>> {
        match self.best {
            Some((index, _, value)) => Ok((index, value)),
            None => Err(self.refusals),
        }
    }
}

impl<T> Default for Choice<T> {
    fn default() -> Choice<T> {
        Choice::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Cause, Retry};

    #[test]
    fn the_strongest_wins_and_of_equals_the_first() {
        let order = [
            Level::None,
            Level::ContainerDegraded,
            Level::NativeDegraded,
            Level::NativeDegraded,
            Level::Container,
            Level::Native,
        ];
        let mut choice = Choice::new();
        let mut settled = Vec::new();
        for (index, level) in order.into_iter().enumerate() {
            choice.add(index, "x", Ok((level, index)));
            settled.push(choice.is_settled());
            if level == Level::NativeDegraded {
                assert_eq!(choice.best.as_ref().map(|(index, ..)| *index), Some(2));
            }
        }
        assert_eq!(settled, [false, false, false, false, true, true]);
        assert_eq!(choice.made(), Ok((5, 5)));
    }

    #[test]
    fn where_none_works_every_reason_is_kept() {
        let (what, fix) = ("w".to_owned(), "f".to_owned());
        let refusal = Refusal { what, cause: Cause::Other, fix, retry: Retry::AfterFix, at: None };
        let mut choice = Choice::<()>::default();
        choice.add(0, "native", Err(refusal.clone()));
        choice.add(1, "docker", Err(refusal.clone()));
        assert!(!choice.is_settled());
        assert_eq!(choice.made(), Err(vec![("native", refusal.clone()), ("docker", refusal)]));
    }
}
