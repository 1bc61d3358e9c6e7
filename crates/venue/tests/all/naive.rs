//! A reader of TotalView-ITCH that shares nothing with the product: offsets by hand from the specification, a list of orders a stock.

use std::collections::{BTreeMap, HashMap};

/// An order as the naive reader keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) reference: u64,
    pub(crate) is_bid: bool,
    pub(crate) shares: u32,
    pub(crate) price: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Naive {
    /// Orders of a stock in the order of their arrival at their price.
    pub(crate) stocks: BTreeMap<u16, Vec<Standing>>,
    home: HashMap<u64, u16>,
    prints: HashMap<u64, (u16, u64)>,
    /// Shares traded, by stock.
    pub(crate) volume: BTreeMap<u16, u64>,
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Naive {
    /// Applies a message; the stock that it was of.
    pub(crate) fn apply(&mut self, m: &[u8]) -> u16 {
        let locate = number(m, 1, 2) as u16;
        match m[0] {
            b'A' | b'F' => {
                let order = Standing {
                    reference: number(m, 11, 8),
                    is_bid: m[19] == b'B',
                    shares: number(m, 20, 4) as u32,
                    price: number(m, 32, 4) as u32,
                };
                self.home.insert(order.reference, locate);
                self.stocks.entry(locate).or_default().push(order);
            }
            b'E' => {
                self.reduce(number(m, 11, 8), number(m, 19, 4) as u32);
                self.print(locate, number(m, 23, 8), number(m, 19, 4));
            }
            b'C' => {
                self.reduce(number(m, 11, 8), number(m, 19, 4) as u32);
                if m[31] == b'Y' {
                    self.print(locate, number(m, 23, 8), number(m, 19, 4));
                }
            }
            b'X' => self.reduce(number(m, 11, 8), number(m, 19, 4) as u32),
            b'D' => self.reduce(number(m, 11, 8), u32::MAX),
            b'U' => {
                let (old, new) = (number(m, 11, 8), number(m, 19, 8));
                let orders = self.stocks.get_mut(&self.home[&old]).expect("a stock");
                let at = orders.iter().position(|order| order.reference == old).expect("a live order");
                let is_bid = orders.remove(at).is_bid;
                orders.push(Standing {
                    reference: new,
                    is_bid,
                    shares: number(m, 27, 4) as u32,
                    price: number(m, 31, 4) as u32,
                });
                self.home.insert(new, locate);
            }
            b'P' => self.print(locate, number(m, 36, 8), number(m, 20, 4)),
            b'Q' => self.print(locate, number(m, 31, 8), number(m, 11, 8)),
            b'B' => {
                if let Some((of, shares)) = self.prints.remove(&number(m, 11, 8)) {
                    *self.volume.entry(of).or_default() -= shares;
                }
            }
            _ => {}
        }
        locate
    }

    fn print(&mut self, locate: u16, number: u64, shares: u64) {
        if shares > 0 {
            self.prints.insert(number, (locate, shares));
            *self.volume.entry(locate).or_default() += shares;
        }
    }

    fn reduce(&mut self, reference: u64, by: u32) {
        let orders = self.stocks.get_mut(&self.home[&reference]).expect("a stock");
        let at = orders.iter().position(|order| order.reference == reference).expect("a live order");
        if orders[at].shares <= by {
            orders.remove(at);
        } else {
            orders[at].shares -= by;
        }
    }

    /// The orders of a side as they will be executed.
    pub(crate) fn side(&self, locate: u16, is_bid: bool) -> Vec<Standing> {
        let orders = self.stocks.get(&locate).into_iter().flatten();
        let mut orders: Vec<Standing> = orders.filter(|order| order.is_bid == is_bid).copied().collect();
        orders.sort_by_key(|order| if is_bid { -i64::from(order.price) } else { i64::from(order.price) });
        orders
    }
}
