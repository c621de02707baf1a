module ${bench} (
    input clock,
    input reset,
    input clear,
    input dump,
    output done,
${ports}
);
    import "DPI-C" function void tilewright_cycle(
        input int port, input bit reset, input bit running, input int started, input int retired,
        input bit rready, input bit arvalid, input int arid, input longint araddr, input int arlen,
        input bit awvalid, input longint awaddr,
        input bit wvalid, input bit wlast,
        input bit [${data_high}:0] wdata, input bit [${strobe_high}:0] wstrb,
        output bit rvalid, output int rid, output bit rlast, output bit rerror,
        output bit [${data_high}:0] rdata,
        output bit bvalid, output bit berror);
    import "DPI-C" function void tilewright_dump(
        input int memory, input int address, input bit [${word_high}:0] data);

    wire running;
    wire [${engine_high}:0] started, retired;

    ${top} ${top} (
        .clk(clock), .rst(resets), .done(done), .running(running), .started(started), .retired(retired),
${bus_links},
${host_links}
    );

    // From a register: Verilator evaluates what depends on an input, without a register between, at every clock edge.
    bit resets;
    always @(posedge clock) resets <= reset;

${buses}
    always @(posedge clock) if (clear) begin
${clear}
    end

    always @(posedge clock) if (dump) begin
${dump}
    end
${waves}
    // For the C++ of the whole machine.
`systemc_header
${signs}`verilog
endmodule
