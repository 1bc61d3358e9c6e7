//! Images against a plain model.
