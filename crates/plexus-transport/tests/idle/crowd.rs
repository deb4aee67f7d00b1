//! The crowd: processes that hold connections and report how many of them were closed.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The variable that tells a process of the crowd where to connect, and how often: `ADDRESS COUNT`.
const TOLD: &str = "PLEXUS_TEST_CROWD";

/// The prefix of the number that such a process prints.
const SAYS: &str = "ended: ";

/// How often a process checks whether more of its connections were closed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Many connections, held by other processes. Dropping this ends them.
pub(crate) struct Crowd {
    processes: Vec<(Child, Arc<AtomicUsize>)>,
}

impl Crowd {
    /// Connects `all` times, with at most `each` connections in one process.
    pub(crate) fn gather(address: SocketAddr, all: usize, each: usize) -> Self {
        let shares = (0..all.div_ceil(each)).map(|index| each.min(all - index * each));
        Self { processes: shares.map(|share| Self::process(address, share)).collect() }
    }

    fn process(address: SocketAddr, share: usize) -> (Child, Arc<AtomicUsize>) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--nocapture").env(TOLD, format!("{address} {share}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (lines, ended) =
            (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&ended);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test harness writes to the same line.
                if let Some(number) =
                    line.rsplit(SAYS).next().and_then(|number| number.trim().parse().ok())
                {
                    count.store(number, Ordering::SeqCst);
                }
            }
        });
        (child, ended)
    }

    /// Returns how many connections were closed in favour of newer ones.
    pub(crate) fn ended(&self) -> usize {
        self.processes.iter().map(|(_, count)| count.load(Ordering::SeqCst)).sum()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in &mut self.processes {
            // It may have exited already.
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Acts as a process of the crowd, if this is one, until its parent is gone.
pub(crate) async fn hold_if_told() -> bool {
    let Ok(told) = std::env::var(TOLD) else { return false };
    let (address, count) = told.split_once(' ').unwrap();
    let (address, count): (SocketAddr, usize) = (address.parse().unwrap(), count.parse().unwrap());
    // The process ends with the test, however the test ends.
    std::thread::spawn(|| {
        let _until_the_end = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut open = Vec::with_capacity(count);
    for index in 0..count {
        open.push(connect(address, index).await);
    }
    let mut ended = 0;
    loop {
        open.retain_mut(|stream| {
            let over = was_ended(stream);
            ended += usize::from(over);
            !over
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{SAYS}{ended}").and_then(|()| out.flush()).unwrap();
        drop(out);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Connects from one of many addresses: one address has too few ports for all connections.
async fn connect(address: SocketAddr, index: usize) -> TcpStream {
    let net = u8::try_from(std::process::id() % 250).unwrap();
    let from = Ipv4Addr::new(127, 1, net, u8::try_from(1 + index % 250).unwrap());
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    // The socket is non-blocking, so it can be checked without waiting.
    socket.connect(address).await.unwrap().into_std().unwrap()
}

fn was_ended(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(0) => true,
        Ok(_) => panic!("an answer to nothing"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        Err(error) => panic!("{error}"),
    }
}
