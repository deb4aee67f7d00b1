//! The crowd: processes that hold connections and say how many of them were ended.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Tells a process of the crowd where to go, and with how many: `ADDRESS COUNT`.
const TOLD: &str = "PLEXUS_TEST_CROWD";

/// What stands before the number in what such a process says.
const SAYS: &str = "ended: ";

/// How often a process looks whether more of its connections were ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Many connections, held by other processes. Dropping it ends them.
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
                // The test harness writes into the same line.
                if let Some(number) =
                    line.rsplit(SAYS).next().and_then(|number| number.trim().parse().ok())
                {
                    count.store(number, Ordering::SeqCst);
                }
            }
        });
        (child, ended)
    }

    /// How many made room for newer ones.
    pub(crate) fn ended(&self) -> usize {
        self.processes.iter().map(|(_, count)| count.load(Ordering::SeqCst)).sum()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in &mut self.processes {
            // One that has ended needs no more.
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Plays a process of the crowd, if this is one, until whoever started it is gone.
pub(crate) async fn hold_if_told() -> bool {
    let Ok(told) = std::env::var(TOLD) else { return false };
    let (address, count) = told.split_once(' ').unwrap();
    let (address, count): (SocketAddr, usize) = (address.parse().unwrap(), count.parse().unwrap());
    // It lives no longer than the test does, however that ends.
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

/// Every connection comes from one of many addresses: one address has too few ports for all of
/// them.
async fn connect(address: SocketAddr, index: usize) -> TcpStream {
    let net = u8::try_from(std::process::id() % 250).unwrap();
    let from = Ipv4Addr::new(127, 1, net, u8::try_from(1 + index % 250).unwrap());
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    // It does not block, so it can be looked at without waiting.
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
