//! The moment until which something of a body must have come.
//!
//! The HTTP library bounds each read of a connection, and a whole body by a time that is meant for large
//! ones. What comes all the while and is nothing of the body, such as trailers without an end, is read
//! within one call, which neither of them ends in time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, NextTimeout, Transport, time,
};
use ureq::{Error, Timeout};

/// The moment, for every connection of a client: it makes one request at a time.
#[derive(Clone, Debug, Default)]
pub struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    /// From now on.
    pub fn set(&self, limit: Duration) {
        self.put(Instant::now().checked_add(limit));
    }

    /// No longer: the library's own limits do.
    pub fn lift(&self) {
        self.put(None);
    }

    fn put(&self, moment: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }

    fn left(&self) -> Option<Duration> {
        let moment = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moment.map(|moment| moment.saturating_duration_since(Instant::now()))
    }
}

impl<In: Transport> Connector<In> for Deadline {
    type Out = Bounded<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Bounded<In>>, Error> {
        Ok(chained.map(|inner| Bounded { inner, deadline: self.clone() }))
    }
}

/// A connection that waits for input until the deadline at most.
#[derive(Debug)]
pub struct Bounded<In> {
    inner: In,
    deadline: Deadline,
}

impl<In: Transport> Transport for Bounded<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = match self.deadline.left() {
            Some(Duration::ZERO) => return Err(Error::Timeout(Timeout::PerRead)),
            Some(left) if left < *timeout.after => NextTimeout {
                after: time::Duration::Exact(left),
                reason: Timeout::PerRead,
                ..timeout
            },
            _ => timeout,
        };
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
