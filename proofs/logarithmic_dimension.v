(* Page 9: Any sparse pattern in logarithmic dimension (Propositions 9.5, 9.3, 9.9, 9.13, 9.14) *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 9.3 *)
Module Layout.
(* layout *)
(* Proposition 9.3 (Block layout): c stands for sqrt(d). *)
Theorem layout (R : fieldType) n d (Q K : 'M[R]_(n, d)) (c : R) : c != 0 ->
  let X := row_mx (c *: Q) K in
  c^-1 *: ((X *m col_mx 1%:M 0) *m (X *m col_mx 0 1%:M)^T) = Q *m K^T.
Proof.
by move=> c0 X; rewrite !mul_row_col !mulmx1 !mulmx0 addr0 add0r -scalemxAl scalerA mulVf //
  scale1r.
Qed.


(* Instance: d = 4, c = 2. *)
Example width_four (Q K : 'M[rat]_(3, 4)) := @layout _ 3 4 Q K 2%:R isT.
End Layout.

(* Propositions 9.5 and 9.9 *)
Module Criteria.
Section Criteria.
Variables (F : realFieldType) (n : nat) (eps1 eps2 : F).
Hypotheses (e1 : 0 < eps1 < 1) (e2 : 0 < eps2 < 1).
(* row of a pattern *)
(* S_i: the columns of row i with positive entries. *)
Definition S (A : 'M[F]_n) i : {set 'I_n} := [set j | 0 < A i j].
(* (R), as ratios *)
(* Definition 9.1, criteria (Z) and (R), (9.2); (R) as a ratio, which is its exponential (j and l
   may be exchanged). *)
Definition follows (A M : 'M[F]_n) := [/\ forall i j, 0 <= M i j, forall i j, j \in S A i -> 0 <
  M i j,
  forall i j l, j \notin S A i -> l \in S A i -> M i j <= eps1 * M i l &
  forall i j l, j \in S A i -> l \in S A i -> (M i j / M i l) / (A i j / A i l) <= 1 + eps2].
Definition pattern (A : 'M[F]_n) := forall i, (forall j, 0 <= A i j) /\ S A i != set0.
(* lambda_i, the share of row i on the zeros. *)
Definition share A (M : 'M[F]_n) i := \sum_(j | j \notin S A i) M i j.

(* Proposition 9.5 (From ratios to rows), (9.7). *)
Theorem rows A M : pattern A -> sums_to_one A -> sums_to_one M -> follows A M -> forall i,
  (forall j, j \in S A i -> (1 - share A M i) / (1 + eps2) <= M i j / A i j /\ M i j / A i j <= 1
    + eps2) /\
  share A M i / (1 - share A M i) <= (n - #|S A i|)%:R * eps1 / #|S A i|%:R.
Proof.
move=> pA sA sM [M0 Mp Z Rt] i; have [A0 /set0Pn [l0 l0S]] := pA i.
have Ap j : j \in S A i -> 0 < A i j by rewrite inE.
have A_off j : j \notin S A i -> A i j = 0.
  by rewrite inE => a; apply/eqP; rewrite eq_le A0 leNgt a.
have sumA : \sum_(j in S A i) A i j = 1.
  rewrite -(sA i) [RHS](bigID (mem (S A i))) /= [X in _ = _ + X]big1 ?addr0 // => j; exact: A_off.
have sumM : \sum_(j in S A i) M i j = 1 - share A M i.
  by rewrite -(sM i) [X in _ = X - _](bigID (mem (S A i))) /= addrK.
have q0 : 0 < 1 + eps2 by case/andP: e2 => e _; rewrite addr_gt0 ?ltr01.
(* M i j * A i l <= (1 + eps2) * (M i l * A i j) *)
have cross j l : j \in S A i -> l \in S A i -> M i j * A i l <= (1 + eps2) * (M i l * A i j).
  move=> jS lS; have := Rt i j l jS lS; rewrite invf_div [X in X <= _ -> _]mulrA.
  rewrite ler_pdivr_mulr ?Ap //.
  rewrite [X in X <= _ -> _]mulrAC.
  by rewrite ler_pdivr_mulr ?Mp // -mulrA [A i j * _]mulrC.
have lam0 : 0 < 1 - share A M i.
  by rewrite -sumM (bigD1 l0) //= ltr_paddr ?Mp // sumr_ge0.
split=> [j jS|].
  rewrite ler_pdivr_mulr // ler_pdivr_mulr ?Ap // mulrAC ler_pdivl_mulr ?Ap //; split.
    rewrite -sumM mulr_suml -[X in _ <= X]mulr1 -[X in _ <= _ * X]sumA mulr_sumr.
    apply: ler_sum => l lS; apply: le_trans (cross l j lS jS) _.
    by rewrite [M i j * (1 + _)]mulrC -mulrA.
  apply: le_trans (_ : (1 + eps2) * ((1 - share A M i) * A i j) <= _); last first.
    by rewrite ler_wpmul2l ?(ltW q0) // -[X in _ <= X]mul1r ler_wpmul2r // ler_subl_addl ler_addr
      sumr_ge0.
  rewrite -[X in X <= _]mulr1 -[X in _ * X <= _]sumA mulr_sumr -sumM mulr_suml mulr_sumr.
  by apply: ler_sum => l lS; exact: cross.
have c0 : (0 < #|S A i|)%N by apply/card_gt0P; exists l0.
rewrite ler_pdivr_mulr // mulrAC ler_pdivl_mulr ?ltr0n //.
have each j : j \notin S A i -> M i j * #|S A i|%:R <= eps1 * (1 - share A M i).
  move=> jS; rewrite -sumM mulr_sumr mulr_natr -sumr_const; apply: ler_sum => l lS; exact: Z.
rewrite /share mulr_suml; apply: le_trans (ler_sum _ each) _.
rewrite sumr_const -[_ *+ _]mulr_natl mulrA ler_wpmul2r ?(ltW lam0) //.
have -> : #|[pred j | j \notin S A i]| = (n - #|S A i|)%N.
  by rewrite -[n in (n - _)%N]card_ord -(cardC (mem (S A i))) addKn; apply: eq_card => j; rewrite
    !inE.
by [].
Qed.
End Criteria.

Section Masks.
Variables (F : realFieldType) (n : nat) (eps1 eps2 : F).
(* The mask sets entries to zero and divides each row by what remains. *)
Definition masked (allow : 'I_n -> 'I_n -> bool) (M : 'M[F]_n) : 'M[F]_n :=
  \matrix_(i, j) ((allow i j)%:R * M i j / \sum_l (allow i l)%:R * M i l).
(* Proposition 9.9 (Masks). *)
Theorem masks allow A M : pattern A -> (forall i j, ~~ allow i j -> A i j = 0) -> 0 <= eps1 ->
  follows eps1 eps2 A M -> follows eps1 eps2 A (masked allow M).
Proof.
move=> pA ok e0 [M0 Mp Z Rt].
have on i j : j \in S A i -> allow i j by rewrite inE; apply: contraTT => /ok ->; rewrite ltxx.
have D0 i : 0 < \sum_l (allow i l)%:R * M i l.
  have [_ /set0Pn [l lS]] := pA i; rewrite (bigD1 l) //= on // mul1r ltr_paddr ?Mp //.
  by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?ler0n.
have me i j : masked allow M i j = (allow i j)%:R * M i j / \sum_l (allow i l)%:R * M i l by
  rewrite mxE.
split=> [i j|i j jS|i j l jS lS|i j l jS lS]; rewrite !me.
- by rewrite divr_ge0 ?(ltW (D0 i)) // mulr_ge0 ?ler0n.
- by rewrite divr_gt0 // on // mul1r Mp.
- rewrite mulrA ler_wpmul2r ?invr_ge0 ?(ltW (D0 i)) // (on i l lS) mul1r.
  by case: (allow i j); rewrite ?mul1r ?mul0r ?Z // mulr_ge0.
rewrite !on // !mul1r invf_div mulrA divfK ?gt_eqF //.
exact: Rt.
Qed.
End Masks.

(* Instance: two tokens, the identity, which follows itself. *)
Example identity (F : realFieldType) : let I : 'M[F]_2 := 1%:M in
  [/\ pattern I, sums_to_one I & follows (2%:R^-1) (2%:R^-1) I I].
Proof.
move=> I; have pos i j : (j \in S I i) = (i == j).
  by rewrite inE mxE; case: eqP => _; rewrite ?ltr01 ?ltxx.
split=> [i|i|].
- by split=> [j|]; [rewrite mxE ler0n | apply/set0Pn; exists i; rewrite pos].
- by rewrite (bigD1 i) //= mxE eqxx big1 ?addr0 // => j; rewrite eq_sym mxE => /negbTE ->.
split=> [i j|i j|i j l|i j l]; rewrite ?pos ?mxE ?ler0n //.
- by move/eqP ->; rewrite eqxx ltr01.
- by move=> /negbTE -> /eqP ->; rewrite eqxx mulr1 invr_ge0 ler0n.
by move=> /eqP <- /eqP <-; rewrite eqxx !divr1 ler_addl invr_ge0 ler0n.
Qed.
Example rows_met (F : realFieldType) (I := 1%:M : 'M[F]_2) i :
  share I I i / (1 - share I I i) <= (2 - #|S I i|)%:R * 2%:R^-1 / #|S I i|%:R.
Proof.
have [pI sI fI] := identity F; have half : 0 < (2%:R^-1 : F) < 1.
  by rewrite invr_gt0 ltr0n invf_lt1 ?ltr0n ?ltr1n.
by have [_] := rows half pI sI sI fI i.
Qed.
Example masks_met (F : realFieldType) (I := 1%:M : 'M[F]_2) :
  follows 2%:R^-1 2%:R^-1 I (masked (fun i j => i == j) I).
Proof.
have [pI sI fI] := identity F; apply: masks pI _ _ fI; last by rewrite invr_ge0 ler0n.
by move=> i j /negbTE ij; rewrite mxE ij.
Qed.
End Criteria.

(* Propositions 9.13 and 9.14 *)
Module FullRank.
Section CS.
Variable F : rcfType.
Lemma sqr_abs (a : F) : `|a| ^+ 2 = a ^+ 2.
Proof. by rewrite real_normK ?num_real. Qed.
Lemma norm_sq d (x : 'rV[F]_d) : norm x ^+ 2 = dot x x.
Proof. by rewrite sqr_sqrtr ?sq_ge0 // sqnorm_dot. Qed.
Lemma dot0 d (x : 'rV[F]_d) : dot x x = 0 -> x = 0.
Proof.
move=> z; apply/rowP => c; rewrite mxE; apply/eqP; rewrite -sqrf_eq0 expr2; apply/eqP.
have nn (i : 'I_d) : 0 <= x 0 i * x 0 i by rewrite -expr2 sqr_ge0.
exact: (@psumr_eq0P _ _ _ _ (fun i _ => nn i) z c isT).
Qed.
(* Cauchy and Schwarz. *)
Lemma cauchy d (x y : 'rV[F]_d) : dot x y <= norm x * norm y.
Proof.
have [z|n0] := eqVneq (dot x x) 0.
  rewrite (dot0 z) (_ : dot 0 y = 0) ?mulr_ge0 ?sqrtr_ge0 //.
  by apply: big1 => c _; rewrite mxE mul0r.
have p0 : 0 < dot x x by rewrite lt_neqAle eq_sym n0 dot_ge0.
(* 0 <= |s y - t x|^2 with s = |x|^2, t = x . y *)
have sq : dot x y ^+ 2 <= dot x x * dot y y.
  have := dot_ge0 (dot x x *: y + (- dot x y) *: x).
  rewrite dotDl !dotZl ![dot _ (_ + _)]dotC !dotDl !dotZl [dot y x]dotC.
  set s := dot x x; set t := dot x y; set u := dot y y => h.
  have : 0 <= s * (s * u - t ^+ 2).
    apply: le_trans h _; rewrite le_eqVlt; apply/orP; left; apply/eqP.
    by rewrite !mulNr [t * s]mulrC subrr mulr0 oppr0 addr0 -expr2.
  by rewrite pmulr_rge0 // subr_ge0.
apply: le_trans (ler_norm _) _; rewrite -(ger0_norm (mulr_ge0 (sqrtr_ge0 (sqnorm x)) (sqrtr_ge0
  (sqnorm y)))).
by rewrite -ler_sqr ?nnegrE // !sqr_abs exprMn !norm_sq.
Qed.
Lemma cauchy_abs d (x y : 'rV[F]_d) : \sum_c `|x 0 c * y 0 c| <= norm x * norm y.
Proof.
pose ab (z : 'rV[F]_d) : 'rV[F]_d := \row_c `|z 0 c|.
have nab z : norm (ab z) = norm z.
  by congr (Num.sqrt _); rewrite !sqnorm_dot; apply: eq_bigr => c _; rewrite !mxE -normrM ger0_norm //
    -expr2 sqr_ge0.
rewrite -(nab x) -(nab y); apply: le_trans (cauchy _ _); rewrite le_eqVlt; apply/orP; left;
  apply/eqP.
by apply: eq_bigr => c _; rewrite !mxE normrM.
Qed.

(* rounding *)
(* Every coordinate with relative error at most u. *)
Definition rounds u d (x x' : 'rV[F]_d) := forall c, `|x' 0 c - x 0 c| <= u * `|x 0 c|.
(* Proposition 9.13 (Rounding). *)
Theorem rounding u d (q k q' k' : 'rV[F]_d) : 0 <= u -> rounds u q q' -> rounds u k k' ->
  `|dot q' k' - dot q k| <= (u *+ 2 + u ^+ 2) * norm q * norm k.
Proof.
move=> u0 rq rk; rewrite -mulrA; apply: le_trans (ler_wpmul2l _ (cauchy_abs q k)).
  rewrite mulr_sumr /dot -sumrB; apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => c _.
  set a := q 0 c; set b := k 0 c; set a' := q' 0 c; set b' := k' 0 c.
  have -> : a' * b' - a * b = (a' - a) * b + a * (b' - b) + (a' - a) * (b' - b).
    have -> : a' = a + (a' - a) by rewrite addrC subrK.
    have -> : b' = b + (b' - b) by rewrite addrC subrK.
    rewrite ![_ + (_ - _) - _]addrC !addKr; set x := a' - a; set y := b' - b.
    rewrite mulrDl !mulrDr -[X in X - _]addrA [X in X - _]addrC addrK addrCA addrA //.
  apply: le_trans (ler_norm_add _ _) _; rewrite [X in _ <= X]mulrDl; apply: ler_add.
    apply: le_trans (ler_norm_add _ _) _; rewrite mulr2n [X in _ <= X]mulrDl !normrM; apply:
      ler_add.
      by rewrite mulrA ler_wpmul2r ?normr_ge0 //; exact: rq.
    by rewrite mulrCA ler_wpmul2l ?normr_ge0 //; exact: rk.
  rewrite !normrM expr2 mulrACA ler_pmul ?normr_ge0 //; [exact: rq | exact: rk].
by rewrite addr_ge0 ?mulrn_wge0 ?exprn_ge0.
Qed.

(* operator norm bounds via rows and columns (Schur) : sum_j |N i j| <= r, sum_i |N i j| <= r ->
  |N x| <= r |x| *)
(* Absolute row and column sums bound the spectral norm. *)
Lemma schur n (N : 'M[F]_n) (r : F) (x : 'rV[F]_n) : 0 <= r ->
  (forall i, \sum_j `|N i j| <= r) -> (forall j, \sum_i `|N i j| <= r) -> norm (x *m N^T) <= r *
    norm x.
Proof.
move=> r0 row col.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?sqrtr_ge0 // exprMn !norm_sq.
have one i : (x *m N^T) 0 i ^+ 2 <= r * \sum_j `|N i j| * x 0 j ^+ 2.
  pose a : 'rV[F]_n := \row_j Num.sqrt `|N i j|.
  pose b : 'rV[F]_n := \row_j (Num.sqrt `|N i j| * `|x 0 j|).
  have s2 j : Num.sqrt `|N i j| * Num.sqrt `|N i j| = `|N i j| by rewrite -expr2 sqr_sqrtr.
  have na : norm a ^+ 2 <= r.
    by rewrite norm_sq; apply: le_trans (row i); rewrite le_eqVlt; apply/orP; left; apply/eqP;
      apply: eq_bigr => j _; rewrite !mxE s2.
  have nb : norm b ^+ 2 = \sum_j `|N i j| * x 0 j ^+ 2.
    by rewrite norm_sq; apply: eq_bigr => j _; rewrite !mxE mulrACA s2 -expr2 sqr_abs.
  rewrite -nb; apply: (@le_trans _ _ (norm a ^+ 2 * norm b ^+ 2)); last by rewrite ler_wpmul2r
    ?sqr_ge0.
  rewrite -exprMn -sqr_abs ler_sqr ?nnegrE ?mulr_ge0 ?sqrtr_ge0 ?normr_ge0 //.
  apply: le_trans (cauchy a b); rewrite mxE; apply: le_trans (ler_norm_sum _ _ _) _; apply:
    ler_sum => j _.
  by rewrite !mxE normrM mulrA s2 mulrC.
apply: (@le_trans _ _ (\sum_i r * \sum_j `|N i j| * x 0 j ^+ 2)).
  by apply: ler_sum => i _; rewrite -expr2.
rewrite -mulr_sumr expr2 -mulrA ler_wpmul2l // exchange_big mulr_sumr; apply: ler_sum => j _ /=.
by rewrite -mulr_suml -expr2 ler_wpmul2r ?sqr_ge0.
Qed.
Lemma norm_tri d (x y : 'rV[F]_d) : norm (x + y) <= norm x + norm y.
Proof.
rewrite -ler_sqr ?nnegrE ?addr_ge0 ?sqrtr_ge0 // sqrrD !norm_sq dotDl ![dot _ (x + y)]dotC !dotDl
  [dot y x]dotC.
rewrite -addrA -[X in _ <= X]addrA ler_add2l addrA ler_add2r -mulr2n ler_muln2r /=; exact: cauchy.
Qed.
Lemma normN d (x : 'rV[F]_d) : norm (- x) = norm x.
Proof. by rewrite /norm !sqnorm_dot !dotE opprK. Qed.

(* full rank: |M x| >= (1 - 2 (n - 1) eps) |x| *)
(* Proposition 9.14 (Full rank): |M x| >= (1 - 2 (n - 1) eps_1) |x| for all x, so the least
   singular value is at least that. *)
Theorem full_rank n (M : 'M[F]_n) (pi : {perm 'I_n}) eps : 0 <= eps ->
  (forall i j, 0 <= M i j) -> (forall i, \sum_j M i j = 1) ->
  (forall i j, j != pi i -> M i j <= eps * M i (pi i)) ->
  forall x : 'rV[F]_n, (1 - (n - 1)%:R * eps *+ 2) * norm x <= norm (x *m M^T).
Proof.
move=> e0 M0 M1 Z x; pose Pi : 'M[F]_n := \matrix_(i, j) (j == pi i)%:R.
have le1 i j : M i j <= 1.
  by rewrite -(M1 i) (bigD1 j) //= ler_addl sumr_ge0.
have le i j : j != pi i -> M i j <= eps.
  by move=> ji; apply: le_trans (Z _ _ ji) _; rewrite -[X in _ <= X]mulr1 ler_wpmul2l.
have cnt (j : 'I_n) : #|[pred i | i != j]| = (n - 1)%N by rewrite subn1 -[n in RHS]card_ord
  (cardC1 j).
have row0 i : \sum_(j | j != pi i) M i j <= (n - 1)%:R * eps.
  by apply: le_trans (ler_sum _ (le i)) _; rewrite sumr_const cnt mulr_natl.
have diag i : 1 - M i (pi i) = \sum_(j | j != pi i) M i j.
  by rewrite -(M1 i) (bigD1 (pi i)) //= addrC addKr.
have off i j : `|(M - Pi) i j| = if j == pi i then 1 - M i j else M i j.
  rewrite mxE [(- Pi) i j]mxE [Pi i j]mxE; case: eqP => _; first by rewrite distrC ger0_norm //
    subr_ge0.
  by rewrite subr0 ger0_norm.
pose r := (n - 1)%:R * eps *+ 2.
have r0 : 0 <= r by rewrite mulrn_wge0 // mulr_ge0 ?ler0n.
have S := @schur n (M - Pi) r x r0.
have bound : norm (x *m (M - Pi)^T) <= r * norm x.
  apply: S => [i|j].
    rewrite (bigD1 (pi i)) //= off eqxx diag /r mulr2n ler_add //.
    by rewrite (eq_bigr (M i)) // => j ji; rewrite off (negbTE ji).
  pose i0 := (pi^-1)%g j; have jE : pi i0 = j by rewrite permKV.
  have inj i : i != i0 -> j != pi i by apply: contraNneq => jp; rewrite /i0 jp permK.
  rewrite (bigD1 i0) //= /r mulr2n; apply: ler_add.
    by rewrite off jE eqxx -jE diag.
  apply: (@le_trans _ _ (\sum_(i | i != i0) eps)); last by rewrite sumr_const cnt mulr_natl.
  apply: ler_sum => i /inj ji; rewrite off (negbTE ji); exact: le.
have nPi : norm (x *m Pi^T) = norm x.
  rewrite /norm !sqnorm_dot /dot; congr (Num.sqrt _).
  have xe i : (x *m Pi^T) 0 i = x 0 (pi i).
    rewrite mxE (bigD1 (pi i)) //= !mxE eqxx mulr1 big1 ?addr0 // => j /negbTE ji.
    by rewrite !mxE ji mulr0.
  rewrite [RHS](reindex_inj (@perm_inj _ pi)) /=; by apply: eq_bigr => i _; rewrite xe.
have e : x *m M^T - x *m (M - Pi)^T = x *m Pi^T.
  by rewrite -mulmxBr -linearB /= opprB addrC subrK.
have := norm_tri (x *m M^T) (- (x *m (M - Pi)^T)); rewrite e normN nPi => h.
rewrite mulrBl mul1r ler_subl_addr; apply: le_trans h _; rewrite ler_add2l; exact: bound.
Qed.
End CS.
(* Nothing is rounded. *)
Example rounding_met (F : rcfType) d (q k : 'rV[F]_d) :
  `|dot q k - dot q k| <= (0 *+ 2 + 0 ^+ 2) * norm q * norm k.
Proof. by apply: rounding => // c; rewrite subrr normr0 mul0r. Qed.
End FullRank.
