//! Time zones as devices abbreviate them. There is one table, so that a header and a text of the
//! same device are read alike.

/// Minutes east of UTC of an abbreviation, in capitals as it is sent; `None` if it is none that is
/// known.
///
/// Where one has several meanings it is the one that network devices are configured with most:
/// India for IST (not Ireland, not Israel), North America for CST and AST, Britain for BST, the
/// Gulf for GST. An abbreviation is one offset all year round: summer time has a name of its own.
#[inline]
pub fn abbreviation_minutes(word: &[u8]) -> Option<i16> {
    let minutes = match word {
        b"UTC" | b"GMT" | b"Z" | b"WET" | b"UT" => 0,
        b"CET" | b"BST" | b"WEST" | b"MEZ" => 60,
        b"CEST" | b"EET" | b"SAST" | b"MESZ" => 120,
        b"EEST" | b"MSK" | b"TRT" | b"IDT" => 180,
        b"GST" | b"MSD" => 240,
        b"PKT" => 300,
        b"IST" => 330,
        b"WIB" => 420,
        b"HKT" | b"SGT" | b"AWST" | b"PHT" => 480,
        b"JST" | b"KST" => 540,
        b"ACST" => 570,
        b"AEST" => 600,
        b"ACDT" => 630,
        b"AEDT" => 660,
        b"NZST" => 720,
        b"NZDT" => 780,
        b"NDT" => -150,
        b"BRT" | b"ART" | b"ADT" => -180,
        b"NST" => -210,
        b"AST" | b"EDT" => -240,
        b"EST" | b"CDT" => -300,
        b"CST" | b"MDT" => -360,
        b"MST" | b"PDT" => -420,
        b"PST" | b"AKDT" => -480,
        b"AKST" => -540,
        b"HST" => -600,
        _ => return None,
    };
    Some(minutes)
}
