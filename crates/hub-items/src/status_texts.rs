//! How texts of statuses begin that operators of RTDS know, and look for in logs.

use std::borrow::Cow;

/// Whose words the texts of a status begin with that says of a service that it is down or not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatusTexts {
    /// Our own, which say who is down and what happens next.
    #[default]
    Own,
    /// RTDS's, and behind a colon our own.
    Rtds,
}

impl StatusTexts {
    /// What a text of RTDS begins with that says that a service is down.
    pub const SERVICE_DOWN: &str = "F10: Service down";
    /// What a text of RTDS begins with that says that there is no such service.
    pub const NOT_AVAILABLE: &str = "Service not available";

    /// A text that says that a service, or what serves it, is down.
    pub fn service_down<'t>(self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        self.begin(Self::SERVICE_DOWN, text.into())
    }

    /// A text that says that there is no such service, or none any more.
    pub fn not_available<'t>(self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        self.begin(Self::NOT_AVAILABLE, text.into())
    }

    fn begin<'t>(self, with: &str, text: Cow<'t, str>) -> Cow<'t, str> {
        match self {
            // A Source Distributor or another site may have said it already.
            Self::Rtds if !text.starts_with(with) => Cow::Owned(format!("{with}: {text}")),
            Self::Rtds | Self::Own => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StatusTexts;

    #[test]
    fn texts_begin_as_asked_and_once() {
        let texts = StatusTexts::Rtds;
        let down = texts.service_down("The provider is gone");
        assert_eq!(down, "F10: Service down: The provider is gone");
        assert_eq!(texts.service_down(down.as_ref()), down);
        assert_eq!(texts.not_available("No id 7"), "Service not available: No id 7");
        assert_eq!(StatusTexts::Own.service_down("The provider is gone"), "The provider is gone");
    }
}
