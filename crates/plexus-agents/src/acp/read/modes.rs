//! The mode of a session: what the agent may do without a question. We never change it. A change to
//! a mode that is not in the profile's list is a breach.

use acp_lines::event::answer::ConfigOption;
use acp_lines::event::update::ConfigOptions;
use plexus_engine::driver::Step;

use super::Reading;

impl Reading<'_> {
    /// Notes the mode that the agent reports for its session.
    pub(super) fn mode_told(&mut self, mode: &str) {
        let stays = match (self.profile.modes.is_empty(), &self.memory.mode) {
            (false, _) => self.profile.modes.iter().any(|known| known == mode),
            (true, Some(before)) => before == mode,
            (true, None) => true,
        };
        if !stays {
            self.flush();
            let what =
                format!("the agent moved to the mode {mode:?}, in which it may ask for less");
            self.steps.push(Step::Breach(what));
        }
        self.memory.mode = Some(mode.to_owned());
    }

    /// Notes the options that the agent reports for its session; the mode is one of them.
    pub(super) fn options_told(&mut self, options: &ConfigOptions) {
        let is_mode = |option: &&ConfigOption| option.category.as_deref() == Some("mode");
        let mode = options.config_options.iter().find(is_mode).and_then(ConfigOption::value);
        if let Some(mode) = mode {
            self.mode_told(&mode);
        }
    }

    /// Says what is wrong with the mode in which a session opened.
    pub(super) fn wrong_mode(&self, mode: Option<&str>) -> Option<String> {
        let expected = self.profile.modes.first()?;
        match mode {
            Some(mode) if mode == expected => None,
            Some(mode) => {
                Some(format!("its session opened in the mode {mode:?}, not {expected:?}"))
            }
            None => Some("it does not say in which mode its session is".to_owned()),
        }
    }
}
