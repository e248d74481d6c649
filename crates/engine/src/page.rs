//! Lists come in pages; a page costs the same wherever it lies.

use guerdon_store::Listed;

/// What part of a list is asked for: so many, after the place where the last page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest<P> {
    pub limit: usize,
    pub after: Option<P>,
}

/// A page, and where the next one begins if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, P> {
    pub items: Vec<T>,
    pub next: Option<P>,
}

impl<P> PageRequest<P> {
    /// How many rows to read: one more than asked for tells whether there is a next page.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX - 1) + 1
    }

    /// A page of which the store looked through a part of the list only: it may come back short, or empty, and still have
    /// a next one.
    pub(crate) fn page_of<T, E>(
        &self,
        listed: Listed<T, E>,
        place: impl Fn(&T) -> P,
        end: impl FnOnce(E) -> P,
    ) -> Page<T, P> {
        let page = self.page(listed.rows, place);
        Page { next: page.next.or_else(|| listed.end.map(end)), ..page }
    }

    pub(crate) fn page<T>(&self, mut rows: Vec<T>, place: impl Fn(&T) -> P) -> Page<T, P> {
        let more = rows.len() > self.limit;
        rows.truncate(self.limit);
        let next = if more { rows.last().map(place) } else { None };
        Page { items: rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::PageRequest;
    use guerdon_store::Listed;

    #[test]
    fn the_last_page_says_so() {
        let request = PageRequest { limit: 2, after: None };
        assert_eq!(request.rows(), 3);
        for (rows, items, next) in
            [(vec![], vec![], None), (vec![1, 2], vec![1, 2], None), (vec![1, 2, 3], vec![1, 2], Some(2))]
        {
            let page = request.page(rows, |row| *row);
            assert_eq!((page.items, page.next), (items, next));
        }
    }

    #[test]
    fn a_short_page_goes_on_where_the_look_ended() {
        let request = PageRequest { limit: 2, after: None };
        for (rows, end, items, next) in [
            (vec![], Some(9), vec![], Some(9)),
            (vec![1], Some(9), vec![1], Some(9)),
            (vec![1, 2, 3], Some(9), vec![1, 2], Some(2)),
            (vec![1], None, vec![1], None),
        ] {
            let page = request.page_of(Listed { rows, end }, |row| *row, |end| end);
            assert_eq!((page.items, page.next), (items, next));
        }
    }
}
