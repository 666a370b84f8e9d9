//! Wraps a core module that wit-bindgen prepared into a component: what `wasm-tools component new` does, without the
//! rest of wasm-tools to compile.

use std::error::Error;
use std::process::ExitCode;

use wit_component::ComponentEncoder;

fn componentize(module: &str, component: &str) -> Result<(), Box<dyn Error>> {
    let module = std::fs::read(module)?;
    let built = ComponentEncoder::default().module(&module)?.validate(true).encode()?;
    std::fs::write(component, built)?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, component] = arguments.as_slice() else {
        eprintln!("usage: componentize MODULE.wasm COMPONENT.wasm");
        return ExitCode::from(2);
    };
    match componentize(module, component) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("componentize: {module}: {error}");
            ExitCode::FAILURE
        }
    }
}
