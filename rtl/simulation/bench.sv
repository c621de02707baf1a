module ${bench} (
    input clock,
    input reset,
    input clear,
    input dump,
    output done,
${ports}
);
    import "DPI-C" function void tilewright_cycle(
        input bit reset, input bit running, input int started, input int retired,
        input bit rready, input bit arvalid, input int arid, input longint araddr, input int arlen,
        input bit awvalid, input longint awaddr,
        input bit wvalid, input bit wlast,
        input bit [${data_high}:0] wdata, input bit [${strobe_high}:0] wstrb,
        output bit rvalid, output int rid, output bit rlast, output bit rerror,
        output bit [${data_high}:0] rdata,
        output bit bvalid, output bit berror);
    import "DPI-C" function void tilewright_dump(
        input int memory, input int address, input bit [${word_high}:0] data);

    wire running, rready, arvalid, awvalid, wvalid, wlast;
    wire [${id_high}:0] arid;
    wire [${engine_high}:0] started, retired;
    wire [63:0] araddr, awaddr;
    wire [7:0] arlen;
    wire [${data_high}:0] wdata;
    wire [${strobe_high}:0] wstrb;
    bit rvalid, rlast, rerror, bvalid, berror;
    bit rvalid_next, rlast_next, rerror_next, bvalid_next, berror_next;
    bit [${id_high}:0] rid;
    int rid_next;
    bit [${data_high}:0] rdata, rdata_next;

    ${top} ${top} (
        .clk(clock), .rst(resets), .done(done), .running(running), .started(started), .retired(retired),
        .m_axi__arvalid(arvalid), .m_axi__arready(1'b1), .m_axi__arid(arid), .m_axi__araddr(araddr),
        .m_axi__arlen(arlen), .m_axi__arsize(), .m_axi__arburst(), .m_axi__rvalid(rvalid), .m_axi__rready(rready),
        .m_axi__rid(rid), .m_axi__rdata(rdata), .m_axi__rresp({rerror, 1'b0}), .m_axi__rlast(rlast),
        .m_axi__awvalid(awvalid), .m_axi__awready(1'b1), .m_axi__awid(), .m_axi__awaddr(awaddr), .m_axi__awlen(),
        .m_axi__awsize(), .m_axi__awburst(), .m_axi__wvalid(wvalid), .m_axi__wready(1'b1), .m_axi__wdata(wdata),
        .m_axi__wstrb(wstrb), .m_axi__wlast(wlast), .m_axi__bvalid(bvalid), .m_axi__bready(), .m_axi__bid('0),
        .m_axi__bresp({berror, 1'b0}),
${host_links}
    );

    // From a register: Verilator evaluates what depends on an input, without a register between, at every clock edge.
    bit resets;
    always @(posedge clock) resets <= reset;

    always @(posedge clock) begin
        tilewright_cycle(resets, running, int'(started), int'(retired),
            rready, arvalid, int'(arid), araddr, int'(arlen), awvalid, awaddr, wvalid, wlast, wdata, wstrb,
            rvalid_next, rid_next, rlast_next, rerror_next, rdata_next, bvalid_next, berror_next);
        rvalid <= rvalid_next;
        rid <= rid_next[${id_high}:0];
        rlast <= rlast_next;
        rerror <= rerror_next;
        rdata <= rdata_next;
        bvalid <= bvalid_next;
        berror <= berror_next;
    end

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
