//! Names of a folder. Most folders have one that matches, some have a million.

use std::collections::HashMap;
use std::ffi::OsStr;

/// A table by name that takes no memory beyond its name while it has one.
#[derive(Debug)]
pub(super) enum NameTable<T> {
    /// At most one.
    Few(Option<(Box<OsStr>, T)>),
    /// More than one, at some time.
    Many(HashMap<Box<OsStr>, T>),
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self::Few(None)
    }
}

impl<T> NameTable<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(one) => usize::from(one.is_some()),
            Self::Many(all) => all.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, name: &OsStr) -> Option<&T> {
        match self {
            Self::Few(one) => {
                let (_, known) = one.as_ref().filter(|(known, _)| &**known == name)?;
                Some(known)
            }
            Self::Many(all) => all.get(name),
        }
    }

    pub(super) fn get_mut(&mut self, name: &OsStr) -> Option<&mut T> {
        match self {
            Self::Few(one) => {
                let (_, known) = one.as_mut().filter(|(known, _)| &**known == name)?;
                Some(known)
            }
            Self::Many(all) => all.get_mut(name),
        }
    }

    /// Puts a name in, in place of what it was.
    pub(super) fn insert(&mut self, name: Box<OsStr>, value: T) {
        match self {
            Self::Many(all) => drop(all.insert(name, value)),
            Self::Few(one) => match one.take() {
                Some((before, known)) if before != name => {
                    let all = [(before, known), (name, value)];
                    *self = Self::Many(HashMap::from(all));
                }
                _ => *one = Some((name, value)),
            },
        }
    }

    pub(super) fn remove(&mut self, name: &OsStr) -> Option<T> {
        match self {
            Self::Few(one) => {
                let (_, known) = one.take_if(|(known, _)| &**known == name)?;
                Some(known)
            }
            Self::Many(all) => all.remove(name),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsStr, &T)> {
        let (one, all) = match self {
            Self::Few(one) => (one.as_ref(), None),
            Self::Many(all) => (None, Some(all)),
        };
        let one = one.into_iter().map(|(name, known)| (&**name, known));
        let all = all.into_iter().flatten();
        one.chain(all.map(|(name, known)| (&**name, known)))
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = (Box<OsStr>, T)> {
        let (one, all) = match self {
            Self::Few(one) => (one, None),
            Self::Many(all) => (None, Some(all)),
        };
        let all = all.into_iter().flatten();
        one.into_iter().chain(all)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_table(changes in prop::collection::vec((0..4_u8, any::<bool>()), 0..40)) {
            let mut table = NameTable::default();
            let mut model = BTreeMap::new();
            for (number, (name, stays)) in changes.into_iter().enumerate() {
                let name = OsString::from(name.to_string());
                if stays {
                    table.insert(name.clone().into_boxed_os_str(), number);
                    model.insert(name, number);
                } else {
                    prop_assert_eq!(table.remove(&name), model.remove(&name));
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert_eq!(table.is_empty(), model.is_empty());
                for (name, number) in &mut model {
                    prop_assert_eq!(table.get(name), Some(&*number));
                    prop_assert_eq!(table.get_mut(name), Some(number));
                }
                let all: BTreeMap<_, _> = table
                    .iter()
                    .map(|(name, number)| (name.to_owned(), *number))
                    .collect();
                prop_assert_eq!(&all, &model);
            }
            let all: BTreeMap<_, _> = table
                .into_values()
                .map(|(name, number)| (name.into_os_string(), number))
                .collect();
            prop_assert_eq!(all, model);
        }
    }
}
