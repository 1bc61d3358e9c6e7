//! What makes two requests ask for the same item.
