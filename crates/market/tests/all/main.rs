//! Books against naive ones, and what they cost.

mod by_price;
mod cost;
mod naive;
mod orders;
mod views;
